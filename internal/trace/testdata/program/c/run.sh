# Runs programs that fail and keeps what each prints. It is meant for a sandbox.
mkdir -p out
keep() {
  name=$1
  shift
  "$@" >"out/$name.txt" 2>&1
}
export LC_ALL=C.UTF-8
keep gcc gcc -fsyntax-only -Wall error.c
keep include gcc -fsyntax-only include.c
keep cpp g++ -fsyntax-only error.cc
keep link gcc -g link.c
keep plainlink gcc link.c
