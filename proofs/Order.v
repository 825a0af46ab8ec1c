(** The wave ends, because suspects are taken in the order of their ranks.

    Invariant, [ordered p]: the wave stands at key [p] and nothing on the heap is before it; a rederived
    fact has a derivation whose whole body ranks behind the wave, where nothing changes any more. So a
    fact is moved at most once, overdeleted at most once, rederived at most once ([each_once]).
    Main theorems: [wave_finite], no run is infinite, and [wave_exists]. *)

From Deltafix Require Import Wave.

Section Order.
Context {H : hypergraph}.
Variable given : facts.
Variable holds : derivations.
Variable before : facts.

Notation inv := (inv given holds before).

Record ordered (p : nat) (s : state) : Prop := {
  ahead : forall e, In e (suspects s) -> p <= key e;
  behind : forall f, In f (revived s) -> exists d, holds d = true /\ head d = f /\
    supports (rank s) d = true /\ 2 * height (rank s) (body d) + 1 <= p;
  returned : forall f, In f (fallen s) -> limbo s f <> None \/ In f (revived s);
  moved_once : NoDup (moved s);
  fallen_once : NoDup (fallen s);
  revived_once : NoDup (revived s) }.

(** How much has been done, and how much is on the heap. *)
Definition progress (s : state) : nat :=
  length (moved s) + length (fallen s) + length (revived s).

(** A fact in limbo that waits for a derivation it no longer has takes two turns, all else one. *)
Definition turns (rank : ranks) (e : entry) : nat :=
  if waits e then
    match best holds rank (fact e) with
    | Some (h, _) => if h =? at_ e then 1 else 2
    | None => 2
    end
  else 1.

Definition work (s : state) : nat := list_sum (map (turns (rank s)) (suspects s)).

Lemma turns_some rank e : 1 <= turns rank e.
Proof.
  unfold turns. destruct (waits e); [|lia]. destruct (best holds rank (fact e)) as [[h c]|]; [|lia].
  destruct (h =? at_ e); lia.
Qed.

Lemma list_sum_cons x l : list_sum (x :: l) = x + list_sum l.
Proof. reflexivity. Qed.

Lemma work_pop s l e l' : suspects s = l ++ e :: l' ->
  work s = turns (rank s) e + work (with_suspects (l ++ l') s).
Proof.
  intros eq. unfold work. rewrite eq. cbn [rank suspects with_suspects].
  rewrite !map_app, !list_sum_app. cbn [map]. rewrite list_sum_cons. lia.
Qed.

Lemma nodup_bound (l : list node) : NoDup l -> length l <= length nodes.
Proof. intros once. apply NoDup_incl_length; [assumption|]. intros x _. apply nodes_all. Qed.

Lemma progress_bound p s : ordered p s -> progress s <= 3 * length nodes.
Proof.
  intros [_ _ _ a b c]. apply nodup_bound in a, b, c. unfold progress. lia.
Qed.

(** A revived fact is no suspect, and no suspect is in what holds it up. *)
Lemma revived_stays p s f d : inv s -> present (rank s) f = true -> support s f = 0 ->
  holds d = true -> supports (rank s) d = true ->
  2 * height (rank s) (body d) + 1 <= p -> p <= 2 * rank_of (rank s) f ->
  head d <> f /\ ~ In f (body d).
Proof.
  intros I pf z hd sd le le'. split.
  - intros hf. rewrite (exact _ _ _ s I f pf) in z.
    assert (1 <= supporting holds (rank s) f) by (apply supporting_some; eauto). lia.
  - intros i. pose proof (height_ge (rank s) (body d) f i). lia.
Qed.

(** [wait] pushes at most one entry, at the best derivation, which takes one turn. *)
Lemma wait_spec f s : let s' := wait holds f s in
  rank s' = rank s /\ moved s' = moved s /\ fallen s' = fallen s /\ revived s' = revived s /\
  limbo s' f <> None /\ (forall g, f <> g -> limbo s' g = limbo s g) /\
  work s' <= work s + 1 /\
  (forall e, In e (suspects s') -> In e (suspects s) \/ (waits e = true /\
     exists d, candidate holds (rank s) f d = true /\ at_ e = height (rank s) (body d))).
Proof.
  cbn zeta. unfold wait. destruct (best holds (rank s) f) as [[h c]|] eqn:b; cbn -[work].
  - repeat split; auto.
    + rewrite set_same. discriminate.
    + intros g n. now apply set_other.
    + unfold work, heappush, with_limbo. cbn [rank suspects map]. rewrite list_sum_cons.
      unfold turns at 1. cbn [waits fact at_]. rewrite b, Nat.eqb_refl. lia.
    + apply best_some in b. destruct b as (_ & (d & cd & hd) & _).
      intros e [<-|i]; [right|now left]. split; [reflexivity|]. exists d. auto.
  - repeat split; auto.
    + rewrite set_same. discriminate.
    + intros g n. now apply set_other.
    + unfold work. cbn [rank suspects with_limbo]. lia.
Qed.

Definition lesser (s s' : state) : Prop :=
  progress s' = S (progress s) \/ (progress s' = progress s /\ work s' < work s).

Lemma take_ordered p s l e l' : inv s -> ordered p s -> suspects s = l ++ e :: l' ->
  (forall other, In other (l ++ l') -> key e <= key other) ->
  let s' := take holds e (with_suspects (l ++ l') s) in ordered (key e) s' /\ lesser s s'.
Proof.
  intros I [ah be rt mo fa re] eq low. cbn zeta.
  pose proof (work_pop s l e l' eq) as wp.
  assert (p <= key e) as pe by (apply ah; rewrite eq; apply in_elt).
  set (t := with_suspects (l ++ l') s) in *.
  assert (rank t = rank s) as rt_ by reflexivity.
  assert (limbo t = limbo s) as lt_ by reflexivity.
  assert (ordered (key e) t /\ lesser s t) as stale.
  { split.
    - constructor; auto. intros f i. destruct (be f i) as (d & hd & hf & sd & le).
      exists d. rewrite rt_. repeat split; auto. lia.
    - right. split; [reflexivity|]. pose proof (turns_some (rank s) e). lia. }
  unfold take. destruct (waits e) eqn:we.
  - destruct (limbo_is t (fact e) (at_ e)) eqn:lim; [|assumption].
    unfold limbo_is in lim. rewrite lt_ in lim.
    destruct (limbo s (fact e)) as [[n|]|] eqn:lf; try discriminate.
    apply Nat.eqb_eq in lim. subst n. set (f := fact e) in *.
    assert (present (rank s) f = false) as absent.
    { apply (apart _ _ _ s I). congruence. }
    assert (key e = 2 * at_ e + 1) as ke by (unfold key; rewrite we; reflexivity).
    (* waiting on, for a derivation further up *)
    assert ((forall d, candidate holds (rank s) f d = true -> at_ e < height (rank s) (body d)) ->
      turns (rank s) e = 2 -> ordered (key e) (wait holds f t) /\ lesser s (wait holds f t)) as on.
    { intros later two. pose proof (wait_spec f t) as W. cbn zeta in W.
      destruct W as (er & em & ef & ev & ln & lo & wk & only). split.
      - constructor; rewrite ?er, ?em, ?ef, ?ev; auto.
        + intros x i. destruct (only x i) as [j|(wx & d & cd & hx)]; [now apply low|].
          apply later in cd. rewrite rt_ in hx. unfold key. rewrite wx, we. cbn. lia.
        + intros x i. destruct (be x i) as (d & hd & hf & sd & le).
          exists d. rewrite rt_. repeat split; auto. lia.
        + intros x i. destruct (node_eq f x) as [<-|n]; [now left|].
          rewrite lo by assumption. now apply rt.
      - right. split; [unfold progress; now rewrite em, ef, ev|]. lia. }
    unfold rederive. rewrite rt_. unfold turns in on. rewrite we in on. fold f in on.
    destruct (best holds (rank s) f) as [[h c]|] eqn:b.
    2: { apply on; [|reflexivity]. intros d cd. rewrite (best_none _ _ _ b d) in cd. discriminate. }
    destruct (best_some _ _ _ _ _ b) as (lowest & (d0 & cd0 & hd0) & _).
    destruct (at_ e <? h) eqn:up.
    + apply Nat.ltb_lt in up. apply on.
      * intros d cd. specialize (lowest d cd). lia.
      * destruct (h =? at_ e) eqn:q; [apply Nat.eqb_eq in q; lia|reflexivity].
    + apply Nat.ltb_ge in up. clear on. cbn zeta.
      apply candidate_spec in cd0. destruct cd0 as (hd & hf & st & ni).
      assert (h = at_ e) as h_at.
      { assert (before (head d0) = true) as bh by (apply (kept _ _ _ s I); right; congruence).
        destruct (missing _ _ _ s I d0 hd bh st) as [ph|(m & lm & le)]; [congruence|].
        rewrite hf, lf in lm. injection lm as <-. lia. }
      set (s1 := State _ _ _ _ _ _ _).
      pose proof (offer_spec (uses holds (rank s1) f) s1) as L. cbn zeta in L.
      set (s' := fold_left offer _ s1) in *.
      destruct L as (er & em & ef & ev & _ & _ & ln & _ & _ & _ & only).
      change (rank s1) with (set f (Some (h + 1)) (rank s)) in *.
      change (moved s1) with (moved s) in em. change (fallen s1) with (fallen s) in ef.
      change (revived s1) with (f :: revived s) in ev.
      split.
      * constructor; rewrite ?er, ?em, ?ef, ?ev; auto.
        -- intros x i. destruct (only x i) as [j|(d & j & wx & hx)]; [now apply low|].
           apply uses_spec in j. destruct j as (_ & i' & _).
           pose proof (height_in (rank s) f (h + 1) (body d) i').
           unfold key. rewrite wx, we. cbn. lia.
        -- intros x [<-|i].
           ++ exists d0. repeat split; auto.
              ** apply supports_spec.
                 rewrite hf, present_set, same_refl, stands_set_out, rank_of_same, height_out by auto.
                 repeat split; auto. lia.
              ** rewrite height_out by assumption. lia.
           ++ destruct (be x i) as (d & hd' & hx & sd & le). exists d.
              apply supports_spec in sd. destruct sd as (ph & sd & lt).
              pose proof (stands_absent _ d f sd absent) as ni'.
              assert (f <> head d) as n by congruence.
              repeat split; auto.
              ** apply supports_spec.
                 rewrite present_set, ph, orb_true_r, stands_set_out, rank_of_other, height_out by auto.
                 auto.
              ** rewrite height_out by assumption. lia.
        -- intros x i. destruct (node_eq f x) as [<-|n]; [right; now left|].
           destruct (rt x i) as [j|j]; [left|right; now right].
           rewrite <- (not_iff_compat (ln x)). cbn. now rewrite set_other.
        -- constructor; [|assumption]. intros i. destruct (be f i) as (d & _ & hx & sd & _).
           apply supports_spec in sd. destruct sd as (ph & _). congruence.
      * left. unfold progress. rewrite em, ef, ev. cbn. lia.
  - destruct (rank_is t (fact e) (at_ e) && (support t (fact e) =? 0)) eqn:due; [|assumption].
    apply andb_true_iff in due. destruct due as [r z]. apply Nat.eqb_eq in z.
    unfold rank_is in r. rewrite rt_ in r.
    destruct (rank s (fact e)) as [n|] eqn:rf; [|discriminate]. apply Nat.eqb_eq in r. subst n.
    set (f := fact e) in *. change (support t f) with (support s f) in z.
    assert (present (rank s) f = true) as pf by (unfold present; now rewrite rf).
    assert (rank_of (rank s) f = at_ e) as rof by (unfold rank_of; now rewrite rf).
    assert (key e = 2 * at_ e) as ke by (unfold key; rewrite we; cbn; lia).
    destruct (unsupported given holds before s f I pf z) as [_ above].
    assert (forall x, In x (revived s) -> f <> x /\ exists d, holds d = true /\ head d = x /\
      present (rank s) x = true /\ stands (rank s) d = true /\
      height (rank s) (body d) < rank_of (rank s) x /\
      2 * height (rank s) (body d) + 1 <= key e /\ ~ In f (body d)) as safe.
    { intros x i. destruct (be x i) as (d & hd & <- & sd & le).
      destruct (revived_stays p s f d I pf z hd sd le) as [n ni]; [lia|].
      split; [congruence|]. exists d. apply supports_spec in sd. intuition lia. }
    (* what is lost by a move, or by overdeletion, is a suspect further up *)
    assert (forall q x, In x (suspects (lose_all (map head (filter q (uses holds (rank s) f))) t)) ->
      (forall d, q d = true -> height (rank s) (body d) < rank_of (rank s) (head d)) ->
      key e <= key x) as later.
    { intros q x i ab. pose proof (lose_all_spec (map head (filter q (uses holds (rank s) f))) t) as L.
      cbn zeta in L. destruct L as (_ & _ & _ & _ & _ & _ & _ & _ & only).
      destruct (only x i) as [j|(j & wx & ax)]; [now apply low|].
      apply in_map_iff in j. destruct j as (d & hx & j). apply filter_In in j.
      destruct j as [j qd]. apply uses_spec in j. destruct j as (_ & i' & _).
      specialize (ab d qd). pose proof (height_ge (rank s) (body d) f i').
      rewrite rt_, <- hx in ax. unfold key. rewrite wx, we. cbn. lia. }
    assert (ordered (key e) (overdelete holds f t) /\ lesser s (overdelete holds f t)) as over.
    { unfold overdelete; cbn zeta. rewrite rt_.
      set (q := fun d => present (rank s) (head d) && _).
      specialize (later q). set (lost := map head (filter q (uses holds (rank s) f))) in *.
      pose proof (lose_all_spec lost t) as L. cbn zeta in L.
      destruct L as (er & el & em & ef & ev & _ & _ & _ & _).
      rewrite er, el, em, ef, ev, rt_, lt_.
      change (moved t) with (moved s). change (fallen t) with (fallen s).
      change (revived t) with (revived s).
      set (s1 := State _ _ _ _ _ _ _). pose proof (wait_spec f s1) as W. cbn zeta in W.
      destruct W as (er' & em' & ef' & ev' & ln & lo & _ & only).
      change (rank s1) with (set f None (rank s)) in *.
      change (moved s1) with (moved s) in *. change (fallen s1) with (f :: fallen s) in *.
      change (revived s1) with (revived s) in *. change (limbo s1) with (limbo s) in *.
      split.
      - constructor; rewrite ?er', ?em', ?ef', ?ev'; auto.
        + intros x i. destruct (only x i) as [j|(wx & d & cd & hx)].
          * apply later; [assumption|]. intros d qd. unfold q in qd.
            apply andb_true_iff in qd. destruct qd as [_ qd]. now apply Nat.ltb_lt.
          * apply candidate_spec in cd. destruct cd as (hd & hf & st & ni).
            apply stands_unset in st. destruct st as [st _]. specialize (above d hd hf st).
            rewrite height_out in hx by assumption. unfold key. rewrite wx, we. cbn. lia.
        + intros x i. destruct (safe x i) as (n & d & hd & <- & ph & st & lt & le & ni).
          exists d. repeat split; auto.
          * apply supports_spec.
            rewrite present_unset, same_not, stands_unset, rank_of_other, height_out by assumption.
            cbn. auto.
          * rewrite height_out by assumption. lia.
        + intros x [<-|i]; [now left|]. destruct (node_eq f x) as [<-|n]; [now left|].
          rewrite lo by assumption. now apply rt.
        + constructor; [|assumption]. intros i. destruct (rt f i) as [j|j].
          * rewrite (apart _ _ _ s I f j) in pf. discriminate.
          * destruct (safe f j). congruence.
      - left. unfold progress. rewrite em', ef', ev'. cbn. lia. }
    destruct (member f (moved t)) eqn:mv; [assumption|].
    change (moved t) with (moved s) in mv. apply member_not in mv.
    destruct (best holds (rank t) f) as [[h c]|] eqn:b; [|assumption]. clear over.
    rewrite rt_ in b. apply best_some in b. destruct b as (_ & (d0 & cd0 & hd0) & _).
    unfold move; cbn zeta. rewrite rt_.
    set (q := fun d => present (rank s) (head d) && _ && _).
    specialize (later q). set (lost := map head (filter q (uses holds (rank s) f))) in *.
    pose proof (lose_all_spec lost t) as L. cbn zeta in L.
    destruct L as (er & el & em & ef & ev & _ & _ & _ & _).
    split.
    + constructor; cbn; rewrite ?er, ?em, ?ef, ?ev, ?el; auto.
      * intros x i. apply later; [assumption|]. intros d qd. unfold q in qd.
        rewrite !andb_true_iff in qd. destruct qd as [[_ qd] _]. now apply Nat.ltb_lt.
      * intros x i. destruct (safe x i) as (n & d & hd & <- & ph & st & lt & le & ni).
        exists d. repeat split; auto.
        -- apply supports_spec. rewrite rt_.
           rewrite present_set, ph, orb_true_r, stands_set, rank_of_other, height_out by assumption.
           auto.
        -- rewrite rt_, height_out by assumption. lia.
      * constructor; assumption.
    + left. unfold progress. cbn. rewrite em, ef, ev. cbn. lia.
Qed.

(** ** Every run ends *)

Theorem wave_step_ordered p s s' : inv s -> ordered p s -> wave_step holds s s' ->
  exists q, ordered q s' /\ lesser s s'.
Proof.
  intros I O [l e l' eq low]. exists (key e). now apply (take_ordered p).
Qed.

Theorem wave_finite p s : inv s -> ordered p s -> Acc (fun b a => wave_step holds a b) s.
Proof.
  remember (3 * length nodes - progress s) as a eqn:ea. revert p s ea.
  induction a as [a IHa] using (well_founded_induction lt_wf). intros p s ea.
  remember (work s) as b eqn:eb. revert p s ea eb.
  induction b as [b IHb] using (well_founded_induction lt_wf). intros p s ea eb I O.
  constructor. intros s' st. destruct (wave_step_ordered p s s' I O st) as (q & O' & less).
  assert (inv s') as I'.
  { apply (any_step_inv given holds before s); [assumption|]. now apply wave_step_any. }
  pose proof (progress_bound q s' O') as bound. destruct less as [more|[equal less]].
  - apply (IHa (3 * length nodes - progress s')) with (p := q); auto. lia.
  - apply (IHb (work s')) with (p := q); auto; [lia|congruence].
Qed.

Lemma lowest_exists (l : list entry) : l <> [] ->
  exists a e b, l = a ++ e :: b /\ forall other, In other (a ++ b) -> key e <= key other.
Proof.
  induction l as [|x l IH]; [easy|]. intros _. destruct l as [|y l].
  - exists [], x, []. split; [reflexivity|easy].
  - destruct IH as (a & e & b & eq & low); [discriminate|].
    destruct (le_lt_dec (key e) (key x)) as [le|lt].
    + exists (x :: a), e, b. rewrite eq. split; [reflexivity|]. intros o [<-|i]; auto.
    + exists [], x, (y :: l). split; [reflexivity|]. rewrite eq. intros o i.
      assert (o = e \/ key e <= key o) as [->|le]; [|lia|lia].
      cbn in i. rewrite in_app_iff in i. cbn in i. specialize (low o). rewrite in_app_iff in low.
      intuition.
Qed.

Theorem wave_exists p s : inv s -> ordered p s -> exists s', wave holds s s'.
Proof.
  intros I O. pose proof (wave_finite p s I O) as end_.
  revert p I O. induction end_ as [s _ IH]. intros p I O. destruct (suspects s) as [|x l] eqn:eq.
  { exists s. now constructor. }
  destruct (lowest_exists (suspects s)) as (a & e & b & eq' & low); [now rewrite eq|].
  pose proof (wave_take holds s a e b eq' low) as st.
  destruct (wave_step_ordered p s _ I O st) as (q & O' & _).
  destruct (IH _ st q) as [s' W]; [|assumption|].
  - apply (any_step_inv given holds before s); [assumption|]. now apply wave_step_any.
  - exists s'. now apply wave_next with (1 := st).
Qed.

(** A fact is moved, overdeleted and rederived at most once in a wave. *)
Theorem each_once p s s' : inv s -> ordered p s -> wave holds s s' ->
  NoDup (moved s') /\ NoDup (fallen s') /\ NoDup (revived s').
Proof.
  intros I O W. revert p I O. induction W as [s over|s s1 s2 st _ IH]; intros p I O.
  - destruct O. auto.
  - destruct (wave_step_ordered p s s1 I O st) as (q & O' & _). apply (IH q); [|assumption].
    apply (any_step_inv given holds before s); [assumption|]. now apply wave_step_any.
Qed.

End Order.
