# The agent at the root. A real one would be a model; this one is a script.
say() { printf '%s\n' "root:     $*"; }
say "I start a planner, which starts a worker."
pioneer-super spawn --agent planner -- sh planner.sh
status=$?
say "the planner left with $status"
exit $status
