// Package liveness answers two questions: is that process alive, and is that
// session served. It refuses to know what is forwarded.
package liveness
