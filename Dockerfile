# The environment of `make setup` on a bare Debian: docker build -t fpt .
#   docker run --rm -it fpt make reproduce
# No image has been built of it yet: hadolint accepts it, and its commands were executed by hand, in an
# empty folder with nothing but the copied files.
FROM python:3.11-slim AS system
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

FROM system
WORKDIR /fpt
# The packages change less often than the rest, so they are a layer of their own. An editable
# installation needs no more of the package than a folder.
COPY Makefile pyproject.toml requirements.lock LICENSE ./
COPY .dvc/fpt-environment.pth .dvc/
COPY fpt/__init__.py fpt/
RUN make setup
COPY . .
CMD ["bash"]
