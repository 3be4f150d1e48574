// Package durable is how this program keeps files that only it may write:
// directories that are checked before they are believed, regular files that are
// opened without following a link or waiting for a pipe, lines that are read in
// bounded memory, and files of lines that outlive a crash at any byte.
//
// It refuses to know what the lines say.
package durable
