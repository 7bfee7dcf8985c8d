package redislock_test

import (
	"slices"
	"testing"
)

// faultRowsContract are the behaviours of the contract suite that answer a fault.
// They run there on every backend, and here beside the other rows.
var faultRowsContract = []string{
	// Renewal.
	"EnableAutoRenew_starts_renewal_of_a_held_lock",
	"EnableAutoRenew_without_a_hold_does_nothing",
	"each_lock_is_served_by_its_own_options",
	"Renew_after_a_loss_touches_neither_the_next_owner_nor_an_absent_key",
	// Time and options.
	"Renew_with_a_bad_duration_is_ErrInvalidOptions_and_touches_nothing",
	"bad_options_are_ErrInvalidOptions_and_named",
	"AcquireWithRetry_refuses_a_bad_strategy_before_any_attempt",
	"a_RetryDelay_of_0_never_spins",
	"a_reply_later_than_the_lease_is_no_hold_and_fn_does_not_run",
	"the_lease_counts_from_before_the_call",
	"ScriptCallTimeout_bounds_an_acquire_and_its_key_is_cleaned_up",
	"a_longer_ScriptCallTimeout_is_honoured",
	"a_ScriptCallTimeout_of_0_is_no_timeout_of_its_own",
	"a_reply_after_the_deadline_does_not_revive_a_hold",
	"MaxRetries_0_1_and_3_make_1_2_and_4_attempts",
	"an_exhausted_budget_is_ErrMaxRetriesExceeded_and_a_conflict",
	// Reentrancy, keys, tokens.
	"two_levels_lost_and_a_key_used_by_another_never_mix_two_holds",
	"a_deleted_count_key_frees_nothing",
	"a_renewed_hold_keeps_its_counter_alive",
	"TokenClock_still_grows_after_its_counter_was_lost",
	"a_lost_TokenCounter_starts_again_at_1",
	"the_counter_outlives_the_lease_by_TokenTTL",
	"UnlockByValue_of_a_hold_of_this_process_is_its_release",
	"UnlockByValue_with_a_wrong_or_empty_value_is_ErrLockNotHeld_and_changes_nothing",
	"bad_keys_are_ErrInvalidOptions_and_named",
	"keys_of_255_bytes_with_spaces_and_colons_work",
	// Errors, callers, shutdown.
	"a_deadline_that_ends_a_wait_is_DeadlineExceeded_and_ErrLockAcquireTimeout",
	"a_cancel_that_ends_a_wait_is_Canceled",
	"nil_and_zero_locks_give_errors_and_zeros",
	"a_nil_fn_is_ErrLockFnRequired",
	"a_nil_context_is_an_error",
	"a_panic_in_fn_releases_and_goes_on",
	"a_Goexit_in_fn_releases_and_goes_on",
	"start_lock_and_Shutdown_fifty_times_leave_no_goroutines",
	"nothing_touches_the_client_after_Shutdown",
	"Shutdown_without_locks_returns_at_once",
	"Shutdown_waits_for_the_holders_and_keeps_their_leases_meanwhile",
	"a_Release_that_failed_does_not_hang_Shutdown",
}

// runContractRows runs them one after another, since some look at the whole process.
func runContractRows(t *testing.T) {
	t.Helper()
	e := startStandalone(t)
	serial, parallel := contract()
	all := slices.Concat(serial, parallel)
	for _, sentence := range faultRowsContract {
		t.Run(sentence, func(t *testing.T) {
			i := slices.IndexFunc(all, func(b behaviour) bool { return b.sentence == sentence })
			if i < 0 {
				t.Fatal("the contract suite has no such behaviour")
			}
			all[i].check(t, newBed(t, e))
		})
	}
}
