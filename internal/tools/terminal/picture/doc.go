// Package picture turns what a terminal showed into an SVG: the same bytes for the same
// recording, nothing fetched, nothing executed, in the light and in the dark.
package picture
