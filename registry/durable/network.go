package durable

// Network says on what kind of file system path is, and whether another machine
// (or a user's program) stands behind it, so that locks, appends and
// notifications may not mean there what they mean on a local disk. Where the
// system cannot tell, the error is errors.ErrUnsupported.
func Network(path string) (kind string, remote bool, err error) { return network(path) }
