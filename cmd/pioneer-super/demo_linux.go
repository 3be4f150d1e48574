package main

import (
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/urfave/cli/v2"
)

//go:embed demo/policy.jsonc demo/root.sh demo/planner.sh demo/worker.sh demo/peek.sh
var demoFiles embed.FS

// demo runs a small tree of scripts in a workspace of its own, then tells its
// story from the log.
func demo(c *cli.Context) error {
	base, err := os.MkdirTemp("", "pioneer-super-demo-")
	if err != nil {
		return exit(125, "%v", err)
	}
	if !c.Bool("keep") {
		defer os.RemoveAll(base)
	}
	workspace := filepath.Join(base, "workspace")
	secret := filepath.Join(base, "secret")
	if err := demoWorkspace(workspace, secret, filepath.Join(base, "policy.jsonc")); err != nil {
		return exit(125, "%v", err)
	}
	args := []string{"spawn", "--new-tree", "--mode", "auto_accept_edits", "--agent", "root", "--cwd", workspace, "--policy", filepath.Join(base, "policy.jsonc")}
	if c.Bool("headless") {
		args = append(args, "--headless")
	}
	cmd := exec.Command("/proc/self/exe", append(args, "--", "sh", "root.sh")...)
	cmd.Args[0] = "pioneer-super"
	cmd.Env = append(os.Environ(), "DEMO_PRIVATE="+secret)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err = cmd.Run()
	if c.Bool("keep") {
		fmt.Println("workspace:", workspace)
	}
	fmt.Println("\nThat was one tree of three agents. `pioneer-super log` tells its story, `pioneer-super tree` shows its sessions.")
	if e, ok := err.(*exec.ExitError); ok {
		return silent(e.ExitCode())
	}
	if err != nil {
		return exit(125, "%v", err)
	}
	return nil
}

func demoWorkspace(workspace, secret, policy string) error {
	if err := os.Mkdir(workspace, 0o700); err != nil {
		return err
	}
	for _, name := range []string{"root.sh", "planner.sh", "worker.sh", "peek.sh"} {
		data, err := demoFiles.ReadFile("demo/" + name)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(workspace, name), data, 0o600); err != nil {
			return err
		}
	}
	data, err := demoFiles.ReadFile("demo/policy.jsonc")
	if err != nil {
		return err
	}
	if err := os.WriteFile(policy, data, 0o600); err != nil {
		return err
	}
	if err := os.WriteFile(secret, []byte("a key that no tool of the tree may read\n"), 0o600); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(workspace, "notes.txt"), []byte("first line\nsecond line\n"), 0o600)
}
