// Package registry keeps what is known of trees and sessions: their ids, their
// processes, one directory and one journal for each tree, and the answer to
// "whose child am I".
//
// It refuses to know policy and sandboxes.
package registry
