// Package forwarding carries an ask to the end that may answer it and the
// answer back: the seam (Carrier), the authorizers, the prompt payload and its
// renderers. The public file protocol is in its wire and spool packages.
//
// It refuses to know sandboxes and processes.
package forwarding
