(** At equal rank suspects come before what waits in limbo, and they must.

    What lives here: the wave with an order by rank alone ([loose_step]), on a cycle of two facts whose
    given one is deleted. Theorem: [rank_alone_need_not_end]. The two facts rederive each other for
    ever, each time one rank higher. (By [any_step_inv], a run that did end would end right.) *)

From Deltafix Require Import Commit.

#[export] Instance cycle : hypergraph.
Proof.
  refine {| node := bool; deriv := bool; head d := d; body d := [negb d]; node_eq := bool_dec;
    nodes := [true; false]; derivs := [true; false] |}.
  1, 3: destruct x || destruct d; cbn; tauto.
  all: repeat constructor; cbn; intuition discriminate.
Defined.

Definition all : derivations := fun _ => true.

Inductive loose_step (s : state) : state -> Prop :=
| loose_take before e after : suspects s = before ++ e :: after ->
    (forall other, In other (before ++ after) -> at_ e <= at_ other) ->
    loose_step s (take all e (with_suspects (before ++ after) s)).

(** Two facts of a cycle: [x] came back above [y], which has lost its support to that. *)
Definition caught (x : node) (n : nat) (s : state) : Prop :=
  rank s x = Some (n + 1) /\ rank s (negb x) = Some n /\
  support s x = 1 /\ support s (negb x) = 0 /\
  suspects s = [Entry n false (negb x)] /\
  limbo s x = None /\ limbo s (negb x) = None /\
  member x (moved s) = true /\ member (negb x) (moved s) = true.

Lemma height_one r f : height r [f] = rank_of r f.
Proof. unfold height. cbn. apply Nat.max_0_r. Qed.

Lemma best_one r x k : r x = Some k -> best all r (negb x) = Some (k, 1).
Proof.
  intros rx. unfold best.
  assert (filter (candidate all r (negb x)) derivs = [negb x]) as ->.
  { destruct x; cbn; unfold candidate, stands, present; cbn; now rewrite rx. }
  cbn [map]. change (@body cycle (negb x)) with [negb (negb x)]. rewrite negb_involutive, height_one. unfold rank_of. rewrite rx.
  cbn [minimum fold_right count_occ]. now destruct (Nat.eq_dec k k).
Qed.

Lemma uses_one r x k : r (negb x) = Some k -> uses all r (negb x) = [x].
Proof.
  intros ry. unfold uses. destruct x; cbn in *; unfold stands, present; cbn; now rewrite ry.
Qed.

Lemma caught_again x n s : caught x n s -> exists s1 s2,
  loose_step s s1 /\ loose_step s1 s2 /\ caught (negb x) (n + 1) s2.
Proof.
  intros (rx & ry & sx & sy & h & lx & ly & mx & my).
  assert (x <> negb x) as xy by (now destruct x).
  pose proof (loose_take s [] (Entry n false (negb x)) [] h (fun _ no => match no with end)) as st1.
  set (s1 := take _ _ _) in st1.
  set (y := negb x : @node cycle). assert (y <> x) as yx by (unfold y; congruence).
  set (mid := State (set y None (rank s)) (set y 0 (set x 0 (support s)))
    [Entry (n + 1) false x] (set y (Some (Some (n + 1))) (limbo s)) (moved s)
    (y :: fallen s) (revived s)).
  assert (s1 = heappush (Entry (n + 1) true y) mid) as e1.
  { subst s1. unfold take. cbn [waits fact at_]. unfold rank_is.
    cbn [rank support moved with_suspects app]. rewrite ry, sy, Nat.eqb_refl, my. cbn [andb Nat.eqb].
    unfold overdelete. cbn [rank with_suspects]. rewrite (uses_one _ x n ry). cbn [filter].
    change (@head cycle x) with x. change (@body cycle x) with [negb x].
    rewrite height_one. unfold present, rank_of. rewrite rx, ry.
    replace (n <? n + 1) with true by (symmetry; apply Nat.ltb_lt; lia).
    cbn [andb map lose_all fold_left]. change (@head cycle x) with x. unfold lose.
    cbn [support rank with_suspects]. rewrite sx. cbn [Nat.sub Nat.eqb].
    unfold wait. cbn [rank heappush with_support with_suspects].
    rewrite (best_one _ x (n + 1)) by (rewrite set_other by congruence; assumption).
    unfold rank_of. rewrite rx. reflexivity. }
  exists s1.
  assert (suspects s1 = [] ++ Entry (n + 1) true y :: [Entry (n + 1) false x]) as h1
    by (now rewrite e1).
  pose proof (loose_take s1 [] _ _ h1) as st2. eexists. split; [exact st1|]. split.
  { apply st2. intros o [<-|[]]. cbn. lia. }
  clear st1 st2. rewrite e1. clear e1 h1 s1.
  set (t := with_suspects _ _). unfold take. cbn [waits fact at_].
  replace (limbo_is t y (n + 1)) with true
    by (unfold limbo_is, t, mid; cbn [limbo with_suspects heappush];
        rewrite set_same; symmetry; apply Nat.eqb_refl).
  unfold rederive.
  assert (best all (rank t) y = Some (n + 1, 1)) as ->
    by (apply best_one; cbn; rewrite set_other by congruence; assumption).
  rewrite Nat.ltb_irrefl. cbn [rank].
  set (r := set y (Some (n + 1 + 1)) (rank t)).
  assert (uses all r y = [x]) as -> by (apply uses_one with (n + 1 + 1); apply set_same). cbn [fold_left]. unfold offer.
  cbn [rank support limbo]. change (@head cycle x) with x. change (@body cycle x) with [y].
  rewrite height_one.
  assert (r x = Some (n + 1)) as rx' by (unfold r; cbn; rewrite !set_other by congruence; assumption).
  assert (r y = Some (n + 1 + 1)) as ry' by apply set_same.
  unfold present, rank_of. rewrite rx', ry'.
  replace (n + 1 + 1 <? n + 1) with false by (symmetry; apply Nat.ltb_ge; lia). cbn [andb].
  replace (set y None (limbo t) x) with (@None (option nat))
    by (cbn; rewrite !set_other by congruence; now symmetry).
  unfold caught. change (negb x) with y.
  replace (negb y) with (x : @node cycle) by (symmetry; apply negb_involutive). cbn [rank support suspects limbo moved]. rewrite rx', ry', !set_same.
  repeat split; auto; cbn.
  - rewrite !set_other by congruence. apply set_same.
  - rewrite !set_other by congruence. assumption.
Qed.

Lemma caught_for_ever s x n : caught x n s -> ~ Acc (fun b a => loose_step a b) s.
Proof.
  intros c end_. revert x n c.
  assert (forall t, (t = s \/ loose_step s t) -> forall x n, ~ caught x n t) as all_.
  2: { intros x n c. exact (all_ s (or_introl eq_refl) x n c). }
  induction end_ as [s _ IH]. intros t [->|st] x n c.
  - destruct (caught_again x n s c) as (s1 & s2 & st1 & st2 & c').
    exact (IH s1 st1 s2 (or_intror st2) _ _ c').
  - exact (IH t st t (or_introl eq_refl) x n c).
Qed.

(** [true] is given, and each of the two follows from the other; then [true] is deleted. *)
Definition before_ : database :=
  Database (fun f => f) all (fun f => Some (if f then 1 else 2)) (fun _ => 1).
Definition none : bool -> bool := fun _ => false.
Definition deletion : edit := Edit (fun f => f) none none none none none.

Theorem rank_alone_need_not_end : sound before_ /\
  ~ Acc (fun b a => loose_step a b) (start_wave deletion before_).
Proof.
  split.
  - constructor; [intros [] _; reflexivity|intros f _; cbn; lia|reflexivity|reflexivity].
  - intros end_.
    set (s0 := start_wave deletion before_) in *.
    set (s1 := take all (@Entry cycle 1 false true) (with_suspects [] s0)).
    set (s2 := take all (@Entry cycle 2 false false) (with_suspects [] s1)).
    set (s3 := take all (@Entry cycle 3 false true) (with_suspects [] s2)).
    set (s4 := take all (@Entry cycle 4 true true) (with_suspects [@Entry cycle 4 false false] s3)).
    assert (loose_step s0 s1) as t1 by (now apply (loose_take s0 [] (@Entry cycle 1 false true) [])).
    assert (loose_step s1 s2) as t2 by (now apply (loose_take s1 [] (@Entry cycle 2 false false) [])).
    assert (loose_step s2 s3) as t3 by (now apply (loose_take s2 [] (@Entry cycle 3 false true) [])).
    assert (loose_step s3 s4) as t4.
    { apply (loose_take s3 [] (@Entry cycle 4 true true) [@Entry cycle 4 false false]); [reflexivity|].
      intros o [<-|[]]. cbn. lia. }
    apply (Acc_inv end_) in t1. apply (Acc_inv t1) in t2. apply (Acc_inv t2) in t3.
    apply (Acc_inv t3) in t4. apply (caught_for_ever s4 (true : @node cycle) 4); [|exact t4].
    repeat split; vm_compute; reflexivity.
Qed.
