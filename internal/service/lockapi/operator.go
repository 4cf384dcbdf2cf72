package lockapi

import (
	"encoding/json"

	"github.com/dlockctl/dlockctl/internal/lockstore"
)

// RevokeRequest takes a lock from its holder: the very grant that the operator
// saw, or nothing (K-3.1).
type RevokeRequest struct {
	Key           string          `json:"key"`
	Token         lockstore.Token `json:"token,omitempty" doc:"The token that the operator saw; or token_str"`
	TokenStr      string          `json:"token_str,omitempty"`
	Operator      string          `json:"operator"`
	Reason        string          `json:"reason"`
	EndSession    bool            `json:"end_session,omitempty" doc:"End the holder's session too, with all its locks"`
	FenceAccounts []string        `json:"fence_accounts,omitempty" doc:"Draw a fence for these accounts (K-3.2)"`
	ShowSession   bool            `json:"show_session,omitempty" doc:"Answer with the holder's session id in full; it is a secret while it lives"`
}

// RevokeManyRequest revokes all that match, in one transaction.
type RevokeManyRequest struct {
	Owner     string `json:"owner,omitempty"`
	Prefix    string `json:"prefix,omitempty"`
	SessionID string `json:"session_id,omitempty"`
	Expired   bool   `json:"expired,omitempty"`
	Operator  string `json:"operator"`
	Reason    string `json:"reason"`
	Expect    int    `json:"expect" doc:"How many the operator saw; another number changes nothing"`
}

// LockOutcome is what a revoke did.
type LockOutcome struct {
	Outcome lockstore.Outcome `json:"outcome" enum:"REVOKED,NOT_HELD,TOKEN_MOVED"`
	Key     string            `json:"key"`
	AuditID int64             `json:"audit_id,omitempty"`
	// AuditIDStr is the same as text.
	AuditIDStr   string          `json:"audit_id_str,omitempty"`
	Owner        string          `json:"owner,omitempty"`
	Token        lockstore.Token `json:"token,omitempty" doc:"The grant that was revoked, or the newer one that stands"`
	TokenStr     string          `json:"token_str,omitempty"`
	Presented    lockstore.Token `json:"presented_token"`
	PresentedStr string          `json:"presented_token_str"`
	SessionID    string          `json:"session_id,omitempty" doc:"Masked, unless it was ended or show_session asks for it"`
	SessionEnded bool            `json:"session_ended,omitempty"`
	AlsoRevoked  []LockOutcome   `json:"also_revoked,omitempty"`
	Fence        lockstore.Token `json:"fence,omitempty"`
	FenceStr     string          `json:"fence_str,omitempty"`
}

// NewLockOutcome writes an outcome; the session id in full only when show says so, or
// where it is none any more.
func NewLockOutcome(o lockstore.LockOutcome, show bool) LockOutcome {
	show = show || o.SessionEnded
	outcome := LockOutcome{
		Outcome: o.Outcome, Key: o.Key, AuditID: o.AuditID, AuditIDStr: idText(o.AuditID), Owner: o.Owner, Token: o.Token, TokenStr: tokenText(o.Token),
		Presented: o.Presented, PresentedStr: o.Presented.String(), SessionID: sessionText(o.Session, show), SessionEnded: o.SessionEnded,
		Fence: o.Fence, FenceStr: tokenText(o.Fence),
	}
	for _, also := range o.AlsoRevoked {
		outcome.AlsoRevoked = append(outcome.AlsoRevoked, NewLockOutcome(also, show))
	}
	return outcome
}

// Value reads an outcome.
func (o LockOutcome) Value() lockstore.LockOutcome {
	outcome := lockstore.LockOutcome{
		Outcome: o.Outcome, Key: o.Key, AuditID: o.AuditID, Owner: o.Owner, Token: o.Token, Presented: o.Presented,
		Session: lockstore.SessionID(o.SessionID), SessionEnded: o.SessionEnded, Fence: o.Fence,
	}
	for _, also := range o.AlsoRevoked {
		outcome.AlsoRevoked = append(outcome.AlsoRevoked, also.Value())
	}
	return outcome
}

// LockOutcomes answers a bulk revoke.
type LockOutcomes struct {
	Outcomes []LockOutcome `json:"outcomes"`
}

// PruneRequest deletes entries whose lease ended long ago.
type PruneRequest struct {
	OlderThanMS int64 `json:"older_than_ms"`
	Limit       int   `json:"limit"`
}

// Revocation is one row of the audit table.
type Revocation struct {
	ID            int64           `json:"id"`
	IDStr         string          `json:"id_str"`
	Key           string          `json:"key"`
	PrevOwner     string          `json:"prev_owner"`
	PrevToken     lockstore.Token `json:"prev_token"`
	PrevTokenStr  string          `json:"prev_token_str"`
	Operator      string          `json:"operator"`
	Reason        string          `json:"reason"`
	RevokedAt     Time            `json:"revoked_at"`
	LoginRole     string          `json:"login_role"`
	ClientAddress string          `json:"client_address,omitempty"`
}

// NewRevocation writes an audit row.
func NewRevocation(r lockstore.Revocation) Revocation {
	return Revocation{r.ID, idText(r.ID), r.Key, r.PrevOwner, r.PrevToken, r.PrevToken.String(), r.Operator, r.Reason, NewTime(r.RevokedAt), r.LoginRole, r.ClientAddress}
}

// Value reads an audit row.
func (r Revocation) Value() (lockstore.Revocation, error) {
	at, err := r.RevokedAt.Value()
	return lockstore.Revocation{
		ID: r.ID, Key: r.Key, PrevOwner: r.PrevOwner, PrevToken: r.PrevToken, Operator: r.Operator, Reason: r.Reason, RevokedAt: at,
		LoginRole: r.LoginRole, ClientAddress: r.ClientAddress,
	}, err
}

// RevocationList answers a list.
type RevocationList struct {
	Revocations []Revocation `json:"revocations"`
}

// OperatorRecord is one link of the operator log (K-7.7).
type OperatorRecord struct {
	ID            int64           `json:"id"`
	IDStr         string          `json:"id_str"`
	LoggedAt      Time            `json:"logged_at"`
	Action        string          `json:"action"`
	Operator      string          `json:"operator"`
	Reason        string          `json:"reason"`
	Token         lockstore.Token `json:"token,omitempty"`
	TokenStr      string          `json:"token_str,omitempty"`
	Details       json.RawMessage `json:"details,omitempty"`
	LoginRole     string          `json:"login_role"`
	ClientAddress string          `json:"client_address,omitempty"`
}

// NewOperatorRecord writes a record.
func NewOperatorRecord(r lockstore.OperatorRecord) OperatorRecord {
	return OperatorRecord{r.ID, idText(r.ID), NewTime(r.LoggedAt), r.Action, r.Operator, r.Reason, r.Token, tokenText(r.Token), r.Details, r.LoginRole, r.ClientAddress}
}

// Value reads a record.
func (r OperatorRecord) Value() (lockstore.OperatorRecord, error) {
	at, err := r.LoggedAt.Value()
	return lockstore.OperatorRecord{
		ID: r.ID, LoggedAt: at, Action: r.Action, Operator: r.Operator, Reason: r.Reason, Token: r.Token, Details: r.Details,
		LoginRole: r.LoginRole, ClientAddress: r.ClientAddress,
	}, err
}

// OperatorLog answers a list.
type OperatorLog struct {
	Records []OperatorRecord `json:"records"`
}

// AuditReport is what a look for rewritten rows found.
type AuditReport struct {
	Revocations    int64          `json:"revocations"`
	RevocationsStr string         `json:"revocations_str"`
	Records        int64          `json:"operator_records"`
	RecordsStr     string         `json:"operator_records_str"`
	Findings       []AuditFinding `json:"findings"`
}

// AuditFinding is one sign that the audit is not what was written.
type AuditFinding struct {
	ID    string `json:"id"`
	Where string `json:"where"`
	What  string `json:"what"`
}

// NewAuditReport writes a report.
func NewAuditReport(r lockstore.AuditReport) AuditReport {
	report := AuditReport{r.Revocations, idText(r.Revocations), r.Records, idText(r.Records), make([]AuditFinding, len(r.Findings))}
	for i, f := range r.Findings {
		report.Findings[i] = AuditFinding(f)
	}
	return report
}

// Value reads a report.
func (r AuditReport) Value() lockstore.AuditReport {
	report := lockstore.AuditReport{Revocations: r.Revocations, Records: r.Records, Findings: make([]lockstore.AuditFinding, len(r.Findings))}
	for i, f := range r.Findings {
		report.Findings[i] = lockstore.AuditFinding(f)
	}
	return report
}

// GrantRecord is what the journal knows of one token (K-11).
type GrantRecord struct {
	Key string `json:"key"`
	Token
	Owner     string `json:"owner"`
	SessionID string `json:"session_id" doc:"Masked, unless show_session asks for it"`
	GrantedAt Time   `json:"granted_at"`
	EndedAt   Time   `json:"ended_at,omitempty"`
	Ended     string `json:"ended,omitempty" doc:"released, expired, taken_over, re_entered, revoked, reaped or voided; left out while the grant stands"`
}

// NewGrantRecord writes a record; its session id in full only when show says so.
func NewGrantRecord(r lockstore.GrantRecord, show bool) GrantRecord {
	return GrantRecord{r.Key, NewToken(r.Token), r.Owner, sessionText(r.Session, show), NewTime(r.GrantedAt), NewTime(r.EndedAt), r.Ended}
}

// Value reads a record.
func (r GrantRecord) Value() (lockstore.GrantRecord, error) {
	record := lockstore.GrantRecord{Key: r.Key, Token: r.Token.Token, Owner: r.Owner, Session: lockstore.SessionID(r.SessionID), Ended: r.Ended}
	return record, times(timeTo{r.GrantedAt, &record.GrantedAt}, timeTo{r.EndedAt, &record.EndedAt})
}

func tokenText(t lockstore.Token) string {
	if t == 0 {
		return ""
	}
	return t.String()
}

func idText(n int64) string {
	if n == 0 {
		return ""
	}
	return lockstore.Token(n).String()
}
