# The environment of `make setup` on a bare Debian: docker build -t fpt .
#   docker run --rm -it fpt make reproduce
FROM python:3.11-slim AS system
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

FROM system
WORKDIR /fpt
# The packages change less often than the rest, so they are a layer of their own.
COPY Makefile pyproject.toml requirements.lock README.md LICENSE ./
COPY .dvc/fpt-environment.pth .dvc/
COPY fpt fpt
RUN make setup
COPY . .
CMD ["bash"]
