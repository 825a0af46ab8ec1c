(** Restarted ranks fail: the algorithm of "Incremental fixpoint computation", section 3.2, as printed.

    What lives here: [make], [expand] and [contract_] of that paper, over a graph, with its one graph of
    four edges on which they go wrong: R to B and C, and a cycle between B and C. Theorems:
    [restarted_ranks_fail]      after R>B and then R>C are removed, B and C are still in [current], and
                                nothing derives them;
    [restarted_ranks_no_contract]   the contract is broken one edit earlier, by any count of supports;
    [twin_on_the_same_edits]    no commit of the twin leaves B or C present;
    [counting_alone_fails]      without ranks, exact counts of derivations keep the cycle as well. *)

From Deltafix Require Import Commit.

Inductive letter := R | B | C.
Definition letter_eq (x y : letter) : {x = y} + {x <> y}.
Proof. decide equality. Defined.

Definition edge : Type := letter * letter.
Definition edge_eq (x y : edge) : {x = y} + {x <> y}.
Proof. decide equality; apply letter_eq. Defined.

(** ** The paper's algorithm *)

Record fixpoint := Fixpoint_ { current : letter -> bool; paper_rank : letter -> nat }.

Section Paper.
Variable edges : list edge.
Variable base : list letter.

Definition stepFwd (x : letter) : list letter :=
  map snd (filter (fun e => if letter_eq (fst e) x then true else false) edges).
Definition stepInv (y : letter) : list letter :=
  map fst (filter (fun e => if letter_eq (snd e) y then true else false) edges).

Definition put {A} (x : letter) (v : A) (f : letter -> A) : letter -> A :=
  fun y => if letter_eq x y then v else f y.

(** [expand], from a frontier; the rank of its first layer is 0 (the last lines of [contract] call it so
    for what is rederived). The fuel is the number of layers. *)
Fixpoint expand (fuel : nat) (frontier : list letter) (r : nat) (s : fixpoint) : fixpoint :=
  match fuel, frontier with
  | S fuel, _ :: _ =>
      let s := fold_left (fun s x => Fixpoint_ (put x true (current s)) (put x r (paper_rank s)))
        frontier s in
      expand fuel (filter (fun y => negb (current s y)) (flat_map stepFwd frontier)) (r + 1) s
  | _, _ => s
  end.

Definition has_support (s : fixpoint) (dying : list letter) (x : letter) : bool :=
  existsb (fun y => current s y && negb (if in_dec letter_eq y dying then true else false)
    && (paper_rank s y <? paper_rank s x)) (stepInv x).

(** The worklist of [contract], phase 1. *)
Fixpoint cascade (fuel : nat) (worklist dying : list letter) (s : fixpoint) : list letter :=
  match fuel, worklist with
  | S fuel, x :: worklist =>
      if in_dec letter_eq x dying then cascade fuel worklist dying s
      else if in_dec letter_eq x base then cascade fuel worklist dying s
      else if has_support s dying x then cascade fuel worklist dying s
      else cascade fuel (worklist ++ stepFwd x) (x :: dying) s
  | _, _ => dying
  end.

Definition contract_ (fuel : nat) (lost : list letter) (s : fixpoint) : fixpoint :=
  let dying := cascade fuel lost [] s in
  let s := Fixpoint_ (fold_left (fun c x => put x false c) dying (current s)) (paper_rank s) in
  expand fuel (filter (fun y => existsb (current s) (stepInv y)) dying) 0 s.

Definition make (fuel : nat) : fixpoint :=
  expand fuel base 0 (Fixpoint_ (fun _ => false) (fun _ => 0)).

End Paper.

Definition whole : list edge := [(R, B); (R, C); (C, B); (B, C)].
Definition without_RB : list edge := [(R, C); (C, B); (B, C)].
Definition without_both : list edge := [(C, B); (B, C)].

Definition after_make : fixpoint := make whole [R] 9.
Definition after_one : fixpoint := contract_ without_RB [R] 9 [B] after_make.
Definition after_two : fixpoint := contract_ without_both [R] 9 [C] after_one.

(** ** The same graph as a hypergraph *)

Definition letters : list letter := [R; B; C].
Definition pairs : list edge := list_prod letters letters.

Lemma letters_all x : In x letters.
Proof. destruct x; cbn; tauto. Qed.

Lemma letters_once : NoDup letters.
Proof. repeat constructor; cbn; intuition discriminate. Qed.

Lemma pairs_all e : In e pairs.
Proof. destruct e. apply in_prod; apply letters_all. Qed.

Lemma pairs_once : NoDup pairs.
Proof. unfold pairs, letters. cbn. repeat constructor; cbn; intuition discriminate. Qed.

#[export] Instance graph : hypergraph := {
  node := letter;
  deriv := edge;
  head := snd;
  body e := [fst e];
  node_eq := letter_eq;
  nodes := letters;
  nodes_all := letters_all;
  nodes_once := letters_once;
  derivs := pairs;
  derivs_all := pairs_all;
  derivs_once := pairs_once }.

Definition root : facts := fun x => if letter_eq x R then true else false.
Definition among (edges : list edge) : derivations :=
  fun e => if in_dec edge_eq e edges then true else false.

Lemma only_the_root f : derivable root (among without_both) f -> f = R.
Proof.
  intros d. apply derivable_least with (p := fun f => f = R) in d; [assumption|]. split.
  - intros x. unfold root. destruct (letter_eq x R); congruence.
  - intros [x y] hd all. specialize (all x (or_introl eq_refl)). subst x.
    unfold among in hd. destruct (in_dec edge_eq (R, y) without_both) as [i|]; [|discriminate].
    cbn in i. destruct i as [i|[i|[]]]; discriminate i.
Qed.

(** The first answer is right, the second is not. *)
Theorem restarted_ranks_fail :
  map (current after_make) [R; B; C] = [true; true; true] /\
  map (current after_one) [R; B; C] = [true; true; true] /\
  map (current after_two) [R; B; C] = [true; true; true] /\
  ~ derivable root (among without_both) B /\ ~ derivable root (among without_both) C.
Proof.
  split; [reflexivity|]. split; [reflexivity|]. split; [reflexivity|].
  split; intros d; apply only_the_root in d; discriminate.
Qed.

Definition ranks_of (s : fixpoint) : ranks :=
  fun x => if current s x then Some (paper_rank s x) else None.

(** B came back with rank 0, below C, on which it rests: it has no support. *)
Theorem restarted_ranks_no_contract :
  map (ranks_of after_one) [R; B; C] = [Some 0; Some 0; Some 1] /\
  forall support, ~ contract root (among without_RB) (ranks_of after_one) support.
Proof.
  split; [reflexivity|]. intros support [exact least _ _].
  specialize (exact B eq_refl). specialize (least B eq_refl). rewrite exact in least.
  vm_compute in least. lia.
Qed.

(** The twin on the same edits, from nothing: whatever it takes first, only R is left. *)
Definition nothing {A} : A -> bool := fun _ => false.

Theorem twin_on_the_same_edits db1 db2 db3 :
  commit (Edit nothing root nothing (among whole) nothing nothing) empty db1 ->
  commit (Edit nothing nothing (among [(R, B)]) nothing nothing nothing) db1 db2 ->
  commit (Edit nothing nothing (among [(R, C)]) nothing nothing nothing) db2 db3 ->
  map (present (db_rank db3)) [R; B; C] = [true; false; false].
Proof.
  intros c1 c2 c3. pose proof (commit_sound _ _ _ empty_sound c1) as s1.
  pose proof (commit_sound _ _ _ s1 c2) as s2.
  pose proof (commit_least_fixpoint _ _ _ s2 c3) as least.
  assert (given db2 = given_after (Edit nothing nothing (among [(R, B)]) nothing nothing nothing) db1 /\
    holds db2 = holds_after (Edit nothing nothing (among [(R, B)]) nothing nothing nothing) db1) as [g2 h2].
  { inversion c2. split; reflexivity. }
  assert (given db1 = given_after (Edit nothing root nothing (among whole) nothing nothing) empty /\
    holds db1 = holds_after (Edit nothing root nothing (among whole) nothing nothing) empty) as [g1 h1].
  { inversion c1. split; reflexivity. }
  assert (forall f, present (db_rank db3) f = true <-> f = R) as only.
  { intros f. rewrite least. split.
    - intros d. apply only_the_root. revert d. apply derivable_least. split.
      + intros x gx. apply derivable_given. revert gx. unfold given_after, given_left.
        rewrite g2. unfold given_after, given_left. rewrite g1. destruct x; easy.
      + intros x hx all. apply derivable_by; [|assumption]. revert hx.
        unfold holds_after, holds_left. rewrite h2. unfold holds_after, holds_left. rewrite h1.
        destruct x as [[] []]; easy.
    - intros ->. apply derivable_given. unfold given_after, given_left. rewrite g2.
      unfold given_after, given_left. rewrite g1. reflexivity. }
  cbn. destruct (present (db_rank db3) R) eqn:pr.
  - destruct (present (db_rank db3) B) eqn:pb; [apply only in pb; discriminate|].
    destruct (present (db_rank db3) C) eqn:pc; [apply only in pc; discriminate|reflexivity].
  - destruct (only R) as [_ r]. rewrite (r eq_refl) in pr. discriminate.
Qed.

(** Counting without ranks: each of B and C has one derivation that stands, and none is missing. *)
Theorem counting_alone_fails :
  let p : facts := fun _ => true in
  (forall f, p f = true -> root f = true \/
     1 <= count (fun d => among without_both d && same (head d) f && forallb p (body d)) derivs) /\
  closed root (among without_both) (fun f => p f = true) /\
  ~ (forall f, p f = true <-> derivable root (among without_both) f).
Proof.
  cbn zeta. split; [|split].
  - intros [] _; [now left|right|right]; vm_compute; lia.
  - now split.
  - intros all. destruct (all B) as [d _]. apply (fun d => only_the_root B (d eq_refl)) in d.
    discriminate.
Qed.
