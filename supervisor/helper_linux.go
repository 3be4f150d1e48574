package supervisor

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// helperEnv is all that a program of the chain has of an environment, beside HOME.
var helperEnv = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}

// helper runs a program of the operator's outside every session: its own process
// group, no terminal, nothing of the supervisor's but three descriptors. It
// implements link.Run.
//
// The program is a child that the reaper knows, so that it is not taken for the
// orphan of a keeper; what it leaves is one.
func (p *pool) helper(ctx context.Context, argv []string, input []byte, limit int) ([]byte, error) {
	// Run by the path that was looked at, not by a link that may lead elsewhere.
	real, err := filepath.EvalSymlinks(argv[0])
	if err == nil {
		err = safeProgram(real)
	}
	if err != nil {
		return nil, err
	}
	inR, inW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer inW.Close()
	outR, outW, err := os.Pipe()
	if err != nil {
		inR.Close()
		return nil, err
	}
	defer outR.Close()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		inR.Close()
		outW.Close()
		return nil, err
	}
	k := &keeperProcess{helped: make(chan syscall.WaitStatus, 1)}
	p.mu.Lock()
	if p.shut {
		err = errKeeperGone
	} else {
		k.pid, err = syscall.ForkExec(real, argv, &syscall.ProcAttr{
			Dir: "/", Env: append([]string{"HOME=" + p.home}, helperEnv...),
			Files: []uintptr{inR.Fd(), outW.Fd(), null.Fd()}, Sys: &syscall.SysProcAttr{Setsid: true},
		})
		if err == nil {
			p.live[k.pid] = k
		}
	}
	p.mu.Unlock()
	inR.Close()
	outW.Close()
	null.Close()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", argv[0], err)
	}
	go func() {
		inW.Write(input) // a program need not read what it does not want
		inW.Close()
	}()
	type read struct {
		data []byte
		err  error
	}
	got := make(chan read, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(outR, int64(limit)+1))
		got <- read{data, err}
	}()
	var status syscall.WaitStatus
	select {
	case status = <-k.helped:
	case <-ctx.Done():
		p.killGroup(k.pid)
		<-k.helped
		return nil, context.Cause(ctx)
	}
	var r read
	select {
	case r = <-got:
	case <-ctx.Done():
		// Something that it left holds its output: it is ended by the reaper.
		return nil, context.Cause(ctx)
	}
	switch {
	case status.Signaled():
		return nil, fmt.Errorf("%s was ended by signal %d", argv[0], status.Signal())
	case status.ExitStatus() != 0:
		return nil, fmt.Errorf("%s left with status %d", argv[0], status.ExitStatus())
	case r.err != nil:
		return nil, r.err
	case len(r.data) > limit:
		return nil, errors.New(argv[0] + " wrote too much")
	}
	return r.data, nil
}

// killGroup ends a helper and its process group. It was not reaped, so that the
// number is its own.
func (p *pool) killGroup(pid int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live[pid] != nil {
		unix.Kill(-pid, unix.SIGKILL)
	}
}
