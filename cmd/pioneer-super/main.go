// Command pioneer-super supervises trees of coding agents.
package main

func main() {}
