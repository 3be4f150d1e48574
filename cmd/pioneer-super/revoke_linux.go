package main

import (
	"fmt"

	"github.com/urfave/cli/v2"

	"github.com/getpioneer/pioneer-super/forwarding/prompt"
	"github.com/getpioneer/pioneer-super/registry"
	"github.com/getpioneer/pioneer-super/supervisor/control"
)

// revokeGrant ends a grant over the socket of human operations.
func revokeGrant(c *cli.Context) error {
	if n := c.Args().Len(); n < 1 || n > 2 {
		return exit(2, "grants revoke: expected GRANT, and perhaps TREE; grants list shows them")
	}
	conn, human, _, err := humanConn(c, c.Args().Get(1))
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.Send(control.Message{Request: &control.Request{ID: registry.NewRequestID(), Op: control.OpRevoke, Grant: c.Args().First()}}); err != nil {
		human.Close()
		return exit(125, "%v", err)
	}
	for {
		var m control.Message
		if err := conn.Recv(&m); err != nil {
			human.Close()
			return exit(125, "the tree has ended")
		}
		if m.Result == nil {
			continue // questions are for whoever answers
		}
		human.Close()
		if m.Result.Class != control.ClassDecided {
			return exit(m.Result.Exit, "%s", prompt.Visible(m.Result.Reason))
		}
		fmt.Println(prompt.Visible(m.Result.Reason))
		return nil
	}
}
