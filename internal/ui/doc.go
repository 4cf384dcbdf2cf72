// Package ui is what a person sees: streams, colour, tables, prompts and
// progress. It knows nothing of locks; every verb hands it plain structs with
// JSON tags and a list of columns, and it writes them in the format asked for.
// Nobody else imports lipgloss or tablewriter.
package ui
