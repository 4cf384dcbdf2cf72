// Package top is the live screen: the model decides, the view draws, and both
// are functions that a test calls without a terminal.
package top
