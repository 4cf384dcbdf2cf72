// Command hello is what a Go program costs that does nothing: the reference of
// `dlockctl version`.
package main

import "fmt"

func main() { fmt.Println("hello, world") }
