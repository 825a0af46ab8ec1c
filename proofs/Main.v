(** What is proved, and what it rests on: nothing. `make proofs` fails unless each line prints "Closed
    under the global context". docs/concepts/proof.md says what each theorem says. *)

From Deltafix Require Import Commit Strata Restarted Ties Run.

Print Assumptions derivable_closed.
Print Assumptions derivable_least.
Print Assumptions well_founded_presence.
Print Assumptions contract_least_fixpoint.
Print Assumptions any_step_inv.
Print Assumptions wave_end.
Print Assumptions wave_finite.
Print Assumptions each_once.
Print Assumptions empty_sound.
Print Assumptions commit_contract.
Print Assumptions commit_least_fixpoint.
Print Assumptions commit_delta.
Print Assumptions commit_delta_local.
Print Assumptions commit_exists.
Print Assumptions commit_finite.
Print Assumptions same_arrival.
Print Assumptions strata_model.
Print Assumptions strata_commit.
Print Assumptions strata_commit_empty.
Print Assumptions strata_commit_exists.
Print Assumptions restarted_ranks_fail.
Print Assumptions restarted_ranks_no_contract.
Print Assumptions twin_on_the_same_edits.
Print Assumptions counting_alone_fails.
Print Assumptions rank_alone_need_not_end.
Print Assumptions run_commit_is_commit.
