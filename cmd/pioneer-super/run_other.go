//go:build !linux

package main

import (
	"runtime"

	"github.com/urfave/cli/v2"
)

// What starts or reaches processes of a tree is built for Linux alone. What only
// reads the disk or judges works everywhere.

func unsupported() error {
	return exit(125, "this command needs Linux; on %s only those that read the disk or judge work", runtime.GOOS)
}

func spawn(*cli.Context) error       { return unsupported() }
func execTool(*cli.Context) error    { return unsupported() }
func ask(*cli.Context) error         { return unsupported() }
func turn(*cli.Context) error        { return unsupported() }
func showContext(*cli.Context) error { return unsupported() }
func approve(*cli.Context) error     { return unsupported() }
func stop(*cli.Context) error        { return unsupported() }
func revokeGrant(*cli.Context) error { return unsupported() }
func demo(*cli.Context) error        { return unsupported() }

// ownTree: where no tree runs, none is above.
func ownTree() (authorityAbove, error) { return nil, nil }

func shellLink([]string) int {
	warn("%v", unsupported())
	return 125
}

// reach is what could act for a human of a tree, and no tree runs here.
func reach() []string { return nil }
