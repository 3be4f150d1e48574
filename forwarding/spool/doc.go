// Package spool carries asks through files, as the public protocol lays them
// out: one inbox for each serving session, one file for each request and each
// response, one heartbeat for each session that is served.
//
// It refuses to know what an ask means and who may answer it.
//
// Every file is found from a descriptor of the root by names that were checked,
// never through a symbolic link, and is read once, through a descriptor that
// cannot block, up to a limit. Notification is a hint: what lies in the
// directories is the truth, and is looked at again whether or not anything was
// announced. A response is published with a call that refuses to replace one, so
// the first answer to a request stands.
package spool
