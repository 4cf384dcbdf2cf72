package restore

// ShowPlan, ShowResult and ShowVerification open the pages to their test.
var (
	ShowPlan         = showPlan
	ShowVerification = printVerification
)

// ShowResult prints what a fast-forward without further flags did.
var ShowResult = finish

// FastForwardOptions are those flags.
type FastForwardOptions = fastForwardOptions
