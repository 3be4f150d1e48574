// Package wire is the public filesystem protocol of permission forwarding as
// values: the request, the response, the heartbeat, and who decided. It reads
// what a peer wrote and writes what every known reader accepts.
//
// It refuses to know files, clocks and processes: bytes come in, values go out.
//
// Reading is exact where a difference could fool somebody and tolerant where
// the protocol is. Names are compared with their case, since a reader written
// in JavaScript does; a name given twice, a name that differs from a known one
// only in case, text that is not UTF-8 and half a surrogate pair make the whole
// file unusable, because two readers would see two texts. Names that nobody
// knows are skipped, and an optional field of the wrong shape is treated as if
// it were absent.
package wire
