// Package pi runs the real Pi coding agent, with its public permission
// extension, against a model that plays a script: the tests' proof that the
// product works with an agent that knows nothing of it.
//
// The programs come from the npm registry, at the versions of package-lock.json
// and into a cache that test processes share. What a test starts has an agent
// directory, a HOME and an environment made from nothing, so that no file or
// variable of the developer's reaches it.
//
// It refuses to know how our own programs work; it speaks the public file
// protocol with code of its own, so that an error of ours cannot answer itself.
package pi
