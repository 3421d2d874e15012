# `sh .dvc/fpt.sh VERB ...`: `python -m fpt VERB ...` by the Python of the project's environment.
#
# DVC calls the stages in the reader's shell, whether an environment is activated or not, and for
# `dvc exp run --temp` and `dvc queue start` in a copy of the checkout, which has no .venv.

# Becomes `$1 -m fpt ...` if the Python $1 has the packages; returns if it has not.
become() {
  python=$1
  shift
  "$python" -c 'import importlib.util as packages, sys
sys.exit(not all(map(packages.find_spec, ["torch", "papermill"])))' 2> /dev/null || return 0
  exec "$python" -m fpt "$@"
}

# The program of the process $1, as it was called: a relative path begins in DVC's root.
program_of() {
  [ -r "/proc/$1/cmdline" ] || return 0
  program=$(tr '\0' '\n' < "/proc/$1/cmdline" | head -n 1)
  case $program in
    /* | python*) printf '%s\n' "$program" ;;
    */*) printf '%s\n' "$DVC_ROOT/$program" ;;
  esac
}

# 1. The Python that runs DVC: it called this script, or the shell that did.
above=$(sed -n 's/^PPid:[[:space:]]*//p' "/proc/$PPID/status" 2> /dev/null)
for process in "$PPID" "$above"; do
  program=$(program_of "$process")
  case ${program##*/} in python*) become "$program" "$@" ;; esac
done
# 2. What `make setup` made: DVC has the root of the checkout, not of its copy, in DVC_ROOT.
become "${DVC_ROOT:-.}/.venv/bin/python" "$@"
# 3. What is activated.
become python "$@"
become python3 "$@"
echo "fpt: No Python with this project's packages was found: 'make setup' makes .venv; or activate the environment that has them." >&2
exit 2
