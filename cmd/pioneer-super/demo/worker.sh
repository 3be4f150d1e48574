# The agent three levels down. Each tool that it runs is judged, recorded and
# confined by the one supervisor at the root.
say() { printf '%s\n' "worker:   $*"; }
try() {
	"$@"
	status=$?
	case $status in
	0) say "=> it ran" ;;
	126) say "=> refused, nothing ran" ;;
	*) say "=> it left with $status" ;;
	esac
	echo
}
echo
say "1. a command that a rule allows: wc -l notes.txt"
try pioneer-super exec -- wc -l notes.txt
say "2. a script that a rule allows, but which reads a key outside the workspace"
try pioneer-super exec -- sh peek.sh
say "3. a command that a rule denies: rm notes.txt"
try pioneer-super exec -- rm notes.txt
say "4. a command that no rule names: a human has to say"
try pioneer-super exec -c 'date >> notes.txt && tail -n 1 notes.txt'
