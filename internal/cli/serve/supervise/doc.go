// Package supervise keeps a few processes of this program running: each with its
// lines marked, one that dies started again, all of them ended in order.
package supervise
