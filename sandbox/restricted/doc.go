// Package restricted confines a process of Windows by what an ordinary user may do there: a
// restricted token of low integrity, a job object, and entries in the access lists of the
// directories that the process is to work on.
//
// [New] is pure: it turns directories and limits into a [Plan], which says everything that
// will be asked of the system, and is the same on every system. On Windows, Apply changes the access
// lists, Undo takes back what a [Record] says, and Plan.Start starts a process.
//
// Windows checks a restricted token twice, and both must let it: once as the user, once as the
// restricting SIDs alone. Those are one of our own, which only our entries name, and the groups
// that system folders are readable for; so what is the user's own (home directory, keys) cannot
// be opened. Integrity is low, so that nothing without our label can be written and no
// process of the user be opened for writing, whatever its access list says.
//
// It cannot keep a process from the network: for that Windows has filters that only an
// administrator can set. It cannot protect a name that does not exist yet. What is written here
// was never run on Windows by its authors.
package restricted
