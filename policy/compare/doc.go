// Package compare asks cedar-go and OPA the questions that package policy
// answers, in one run. It is a module of its own, so that neither is a
// dependency of the product. Run it here:
//
//	go test -bench . -benchtime 200ms
package compare
