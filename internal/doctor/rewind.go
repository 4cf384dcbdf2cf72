package doctor

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/dlockctl/dlockctl/internal/lockstore"
	"github.com/dlockctl/dlockctl/internal/lockstore/mark"
	"github.com/dlockctl/dlockctl/internal/paystore"
	"github.com/dlockctl/dlockctl/internal/paystore/floor"
)

// restorePlan says what was lost, and names the command that makes it safe.
const restorePlan = "dlockctl restore plan"

// tokensAhead compares paydb's tokens with the last one that lockdb issued: a
// plain copy keeps both identifiers, and this alone tells it (K-7.6).
func tokensAhead(ctx context.Context, e *exam, _ *side, tx pgx.Tx) (finding, error) {
	if e.pay.tx == nil {
		return e.unread(e.pay), nil
	}
	next, err := nextToken(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	highest, err := floor.Highest(ctx, e.pay.config, paystore.Token(maxToken))
	if err != nil {
		return finding{Unknown, "paydb: " + plain(err), e.pay.remedy(err)}, nil
	}
	if int64(highest) >= next {
		var forged bool
		if err := tx.QueryRow(ctx, forgedQuery, int64(highest)).Scan(&forged); err != nil {
			return finding{}, err
		}
		if forged {
			return finding{Warn, fmt.Sprintf("paydb holds token %d, which an operator has called forged: what lies below it is not compared", highest), advice("an account whose fence is forged is closed for ever: move its money to another, by hand and with two people")}, nil
		}
		return finding{Fail, fmt.Sprintf("paydb holds token %d, and the next one is %d", highest, next), command(restorePlan)}, nil
	}
	return finding{OK, fmt.Sprintf("paydb's highest is %d, the next one is %d", highest, next), nil}, nil
}

// outsideMark compares the outside mark with the last token that was issued.
func outsideMark(ctx context.Context, e *exam, _ *side, tx pgx.Tx) (finding, error) {
	var deployment lockstore.Deployment
	if err := tx.QueryRow(ctx, `SELECT deployment_id::text, kept FROM outside_mark`).Scan(&deployment.ID, &deployment.Kept); err != nil {
		return finding{}, err
	}
	if e.target.MarkDir == "" {
		if deployment.Kept {
			return finding{Fail, "lockdb has one, and this configuration does not say where", advice("set mark_dir to the folder that has dlock-mark-" + deployment.ID + ".json")}, nil
		}
		return finding{OK, "none is kept: a plain copy of lockdb is told by paydb's tokens alone", nil}, nil
	}
	m, err := mark.Open(e.target.MarkDir, deployment.ID)
	if err != nil {
		return finding{Fail, plain(err), advice("set mark_dir to a folder that is there")}, nil
	}
	state, err := m.Read()
	switch {
	case errors.Is(err, mark.ErrMissing) && !deployment.Kept:
		return finding{OK, "none yet: the first grant makes it", nil}, nil
	case err != nil:
		return finding{Fail, plain(err), command(restorePlan)}, nil
	}
	next, err := nextToken(ctx, tx)
	if err != nil {
		return finding{}, err
	}
	if int64(state.Issued) >= next {
		return finding{Fail, fmt.Sprintf("token %d was shown, and the next one is %d", state.Issued, next), command(restorePlan)}, nil
	}
	return finding{OK, fmt.Sprintf("ceiling %d, shown %d", state.Ceiling, state.Issued), nil}, nil
}
