# Attack: Begin with a repository that attacks its clone: hooks, filters, a file system monitor, a submodule on this machine, links that
#   lead out, and an odd ignore file.
# Why it matters: Git executes parts of what it clones, and was made for trusted repositories.
# What must hold: The clone runs and fetches none of it; links that lead out are plain links; the run has no network.
# Host: repository
# Image on docker: clients

breach() { echo "BREACH: $*"; failed=1; }
failed=0

[ "$(cat a.txt)" = hello ] || breach "control: no repository"
find / -path '/usr/*' -prune -o -path /proc -prune -o -name 'owned*' -print 2>/dev/null | grep . && breach "something of the repository ran"
[ -e .git ] && breach ".git is there"
for link in passwd up git; do
	[ -L "$link" ] && breach "$link is a link"
done
[ "$(readlink good)" = a.txt ] || breach "control: a link that stays is none"
[ -z "$(ls -A module)" ] || breach "a submodule was fetched"
grep -q 'oid sha256' pointer.bin || breach "a file of LFS was replaced"
[ -z "$BELLJAR_PROXY" ] || breach "the run has a network"
nslookup git.test 127.0.0.53 >/dev/null 2>&1 && breach "the run resolves the host of the repository"
getent hosts git.test && breach "the run resolves the host of the repository"
exit $failed
