// Package liveness answers two questions: is that process alive, and is that
// session served. It refuses to know what is forwarded.
//
// A process is never a pid alone: Identify takes what tells it from a later
// process with the same number, and a Handle holds on to the process itself
// where the system has that. Whether a session is served is judged from what
// was seen, by a pure function of observations: no sense alone is believed to
// prove life, and a clock that was set proves nothing.
package liveness
