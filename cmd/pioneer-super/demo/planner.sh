say() { printf '%s\n' "planner:  $*"; }
say "my worker gets less than I have: it is supervised"
pioneer-super spawn --agent worker --mode supervised -- sh worker.sh
status=$?
say "the worker left with $status"
exit $status
