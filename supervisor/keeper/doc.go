// Package keeper is the entry of the process that runs one command: it takes the
// client's streams, starts the command confined, reaps everything that the
// command left, and proves its end.
//
// It refuses to know the command line, the logger, policy and asks: it runs the
// one record that it was handed.
package keeper
