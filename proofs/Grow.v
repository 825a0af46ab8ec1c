(** Inserting restores the contract, in whatever order the queue is emptied, and ends.

    Invariant, [ginv]: supports of present facts are exact; of an absent fact, [pending] counts the
    derivations that stand (and one if it is given); what has some is in the queue, once.
    Main theorems: [grow_contract], [grow_finite] and [grow_exists]. *)

From Coq Require Import Btauto.
From Deltafix Require Import Wave.

Section Grow.
Context {H : hypergraph}.

Definition standing (holds : derivations) (rank : ranks) (f : node) : nat :=
  count (fun d => holds d && same (head d) f && stands rank d) derivs.

Definition listed (g : growth) : Prop :=
  NoDup (queue g) /\ forall f, In f (queue g) <-> 1 <= pending g f.

Lemma NoDup_snoc {A} (l : list A) x : NoDup l -> ~ In x l -> NoDup (l ++ [x]).
Proof.
  intros once n. apply NoDup_rev in once. rewrite <- (rev_involutive (l ++ [x])).
  apply NoDup_rev. rewrite rev_app_distr. cbn. constructor; [|assumption].
  now rewrite <- in_rev.
Qed.

Lemma gain_all_spec heads : forall g, let g' := gain_all heads g in
  g_rank g' = g_rank g /\
  (forall f, g_support g' f =
     g_support g f + (if present (g_rank g) f then count_occ node_eq heads f else 0)) /\
  (forall f, pending g' f =
     pending g f + (if present (g_rank g) f then 0 else count_occ node_eq heads f)) /\
  (listed g -> listed g').
Proof.
  induction heads as [|x heads IH]; intros g; cbn zeta.
  - cbn. split; [reflexivity|]. split; [|split; [|tauto]];
      intros f; destruct (present (g_rank g) f); lia.
  - change (gain_all (x :: heads) g) with (gain_all heads (gain g x)).
    specialize (IH (gain g x)). cbn zeta in IH. destruct IH as (er & es & ep & el).
    assert (g_rank (gain g x) = g_rank g) as er'.
    { unfold gain. destruct (present (g_rank g) x); reflexivity. }
    rewrite er' in *. split; [assumption|]. split; [|split].
    + intros f. rewrite es. unfold gain. destruct (present (g_rank g) x) eqn:px; cbn; unfold set;
        destruct (node_eq x f) as [<-|n]; rewrite ?px; try destruct (present (g_rank g) f); lia.
    + intros f. rewrite ep. unfold gain. destruct (present (g_rank g) x) eqn:px; cbn; unfold set;
        destruct (node_eq x f) as [<-|n]; rewrite ?px; try destruct (present (g_rank g) f); lia.
    + intros [once iff]. apply el. unfold gain.
      destruct (present (g_rank g) x); [now split|].
      split; cbn.
      * destruct (pending g x =? 0) eqn:z; [|assumption].
        apply NoDup_snoc; [assumption|]. rewrite iff. apply Nat.eqb_eq in z. lia.
      * intros f. unfold set. destruct (pending g x =? 0) eqn:z;
          rewrite ?in_app_iff, iff; cbn; destruct (node_eq x f) as [<-|n].
        -- intuition lia.
        -- intuition congruence.
        -- apply Nat.eqb_neq in z. lia.
        -- reflexivity.
Qed.

(** ** The invariant *)

Section Invariant.
Variable given : facts.
Variable holds : derivations.

Record ginv (g : growth) : Prop := {
  g_exact : forall f, present (g_rank g) f = true ->
    g_support g f = Nat.b2n (given f) + supporting holds (g_rank g) f;
  g_least : forall f, present (g_rank g) f = true -> 1 <= g_support g f;
  g_pending : forall f, present (g_rank g) f = false ->
    pending g f = Nat.b2n (given f) + standing holds (g_rank g) f;
  g_quiet : forall f, present (g_rank g) f = true -> pending g f = 0;
  g_listed : listed g }.

(** A new fact ranks above all others. *)
Lemma next_rank_above rank f : rank_of rank f < next_rank rank.
Proof. unfold next_rank. pose proof (height_ge rank nodes f (nodes_all f)). lia. Qed.

Lemma height_above rank b : height rank b < next_rank rank.
Proof.
  apply height_lt. split; [unfold next_rank; lia|]. intros g _. apply next_rank_above.
Qed.

Lemma grow_step_inv g g' : ginv g -> grow_step holds g g' ->
  ginv g' /\ (forall f, present (g_rank g) f = true -> g_rank g' f = g_rank g f) /\
  exists f, present (g_rank g) f = false /\ present (g_rank g') f = true.
Proof.
  intros I [before f after eq]. destruct I as [ex le pe qu [once iff]].
  assert (In f (queue g)) as inq by (rewrite eq; apply in_elt).
  assert (present (g_rank g) f = false) as absent.
  { destruct (present (g_rank g) f) eqn:p; [|reflexivity]. apply qu in p. apply iff in inq. lia. }
  unfold take_new; cbn zeta; cbn [g_rank g_support pending queue].
  set (rank := set f (Some (next_rank (g_rank g))) (g_rank g)).
  set (fresh := filter _ (uses holds rank f)).
  set (g0 := Growth rank _ _ _).
  pose proof (gain_all_spec (map head fresh) g0) as L. cbn zeta in L.
  set (g1 := gain_all (map head fresh) g0) in *. destruct L as (er & es & ep & el).
  change (g_rank g0) with rank in *.
  assert (forall x, f <> x -> present rank x = present (g_rank g) x) as pr.
  { intros x n. subst rank. now rewrite present_set, same_not. }
  assert (present rank f = true) as pf.
  { subst rank. now rewrite present_set, same_refl. }
  assert (forall x, present rank x = true -> g_support g1 x = set f (pending g f) (g_support g) x)
    as es'.
  { intros x px. rewrite es, px. cbn.
    enough (count_occ node_eq (map head fresh) x = 0) by lia.
    apply count_occ_not_In. intros i. apply in_map_iff in i. destruct i as (d & <- & i).
    subst fresh. apply filter_In in i. destruct i as [_ i]. rewrite px in i. discriminate. }
  split; [|split].
  - constructor; rewrite ?er.
    + intros x px. rewrite es' by assumption. destruct (node_eq f x) as [<-|n].
      * rewrite set_same, pe by assumption. f_equal. apply count_ext. intros d _.
        apply eq_true_iff_eq. rewrite !andb_true_iff, same_spec, supports_spec. split.
        -- intros [[hd hf] st]. pose proof (stands_absent _ d f st absent) as ni.
           rewrite hf. subst rank. rewrite rank_of_same, height_out, stands_set_out by assumption.
           repeat split; auto. apply height_above.
        -- intros [[hd hf] (_ & st & lt)]. repeat split; auto. rewrite hf in lt. subst rank.
           assert (~ In f (body d)) as ni.
           { intros i. rewrite rank_of_same in lt.
             pose proof (height_in (g_rank g) f (next_rank (g_rank g)) (body d) i). lia. }
           now rewrite stands_set_out in st.
      * rewrite set_other, ex by (try rewrite <- pr; assumption). f_equal.
        apply count_ext. intros d _.
        apply eq_true_iff_eq. rewrite !andb_true_iff, same_spec, !supports_spec.
        split; intros [[hd hx] (ph & st & lt)]; (split; [now split|]); rewrite hx in *.
        -- pose proof (stands_absent _ d f st absent) as ni. subst rank.
           rewrite rank_of_other, height_out, stands_set_out; auto.
        -- subst rank. rewrite rank_of_other in lt by assumption.
           assert (~ In f (body d)) as ni.
           { intros i. pose proof (height_in (g_rank g) f (next_rank (g_rank g)) (body d) i).
             pose proof (next_rank_above (g_rank g) x). lia. }
           rewrite height_out, stands_set_out in * by assumption. rewrite <- pr; auto.
    + intros x px. rewrite es' by assumption. destruct (node_eq f x) as [<-|n].
      * rewrite set_same. now apply iff.
      * rewrite set_other by assumption. apply le. now rewrite <- pr.
    + intros x px. rewrite ep, px. cbn.
      assert (f <> x) as n by congruence. rewrite set_other, pe by (try rewrite <- pr; assumption).
      rewrite <- Nat.add_assoc. f_equal. subst fresh. rewrite count_uses. unfold standing.
      symmetry. apply count_split. intros d _. apply b2n_split.
      * rewrite !andb_true_iff, member_spec. intros [_ st] [[_ [[_ i] _]] _].
        exact (stands_absent _ d f st absent i).
      * rewrite !andb_true_iff, member_spec, same_spec, negb_true_iff. split.
        -- intros [[hd hx] st]. destruct (in_dec node_eq f (body d)) as [i|ni].
           ++ right. rewrite hx. tauto.
           ++ left. subst rank. rewrite stands_set_out in st by assumption. tauto.
        -- intros [[[hd hx] st]|T]; [|tauto]. pose proof (stands_absent _ d f st absent) as ni.
           subst rank. rewrite stands_set_out by assumption. tauto.
    + intros x px. rewrite ep, px. cbn. destruct (node_eq f x) as [<-|n].
      * now rewrite set_same.
      * rewrite set_other by assumption. rewrite qu; [lia|]. now rewrite <- pr.
    + apply el. rewrite eq in once. pose proof (NoDup_remove _ _ _ once) as [once' out].
      split; [assumption|]. cbn. intros x. unfold set. destruct (node_eq f x) as [<-|n].
      * split; [tauto|lia].
      * rewrite <- iff, eq, !in_app_iff. cbn. intuition congruence.
  - intros x px. rewrite er. subst rank. apply set_other. congruence.
  - exists f. rewrite er. auto.
Qed.

(** [grow] keeps what is present, and its ranks. *)
Theorem grow_inv g g' : ginv g -> grow holds g g' ->
  ginv g' /\ queue g' = [] /\ forall f, present (g_rank g) f = true -> g_rank g' f = g_rank g f.
Proof.
  intros I G. induction G as [g over|g g1 g2 st _ IH]; [auto|].
  destruct (grow_step_inv g g1 I st) as (I1 & k & _). destruct (IH I1) as (I2 & q & k').
  repeat split; auto; try apply I2. intros f p. rewrite <- (k f p). apply k'.
  unfold present. rewrite (k f p). exact p.
Qed.

Theorem grow_end g : ginv g -> queue g = [] -> contract given holds (g_rank g) (g_support g).
Proof.
  intros I over.
  assert (forall f, present (g_rank g) f = false ->
    given f = false /\ standing holds (g_rank g) f = 0) as none.
  { intros f p. pose proof (g_pending g I f p) as e. destruct (g_listed g I) as [_ iff].
    specialize (iff f). rewrite over in iff. cbn in iff.
    destruct (given f); cbn in e; [exfalso; apply iff; lia|].
    split; [reflexivity|]. destruct (standing holds (g_rank g) f); [reflexivity|].
    exfalso. apply iff. lia. }
  constructor; try apply I.
  - intros f gf. destruct (present (g_rank g) f) eqn:p; [reflexivity|].
    destruct (none f p). congruence.
  - intros d hd st. destruct (present (g_rank g) (head d)) eqn:p; [reflexivity|].
    destruct (none _ p) as [_ z]. unfold standing in z. rewrite count_zero in z.
    specialize (z d (derivs_all d)). now rewrite hd, same_refl, st in z.
Qed.

(** ** It ends *)

Definition absent_facts (g : growth) : nat := count (fun f => negb (present (g_rank g) f)) nodes.

Lemma count_less {A} (p q : A -> bool) l x :
  (forall y, q y = true -> p y = true) -> In x l -> p x = true -> q x = false ->
  count q l < count p l.
Proof.
  intros sub. unfold count. induction l as [|y l IH]; [easy|]. cbn. intros [->|i] px qx.
  - rewrite px, qx. cbn. clear IH. apply Nat.lt_succ_r.
    induction l as [|y l IH]; cbn; [lia|].
    specialize (sub y). destruct (q y), (p y); cbn; try lia; now specialize (sub eq_refl).
  - specialize (IH i px qx). specialize (sub y).
    destruct (q y), (p y); cbn; try lia; now specialize (sub eq_refl).
Qed.

Lemma grow_less g g' : ginv g -> grow_step holds g g' -> absent_facts g' < absent_facts g.
Proof.
  intros I st. destruct (grow_step_inv g g' I st) as (_ & k & x & px & px').
  apply count_less with x.
  - intros y. rewrite !negb_true_iff. intros a. destruct (present (g_rank g) y) eqn:p; [|reflexivity].
    unfold present in *. rewrite (k y p) in a. congruence.
  - apply nodes_all.
  - now rewrite px.
  - now rewrite px'.
Qed.

(** There is no infinite run of [grow_step]. *)
Theorem grow_finite g : ginv g -> Acc (fun b a => grow_step holds a b) g.
Proof.
  remember (absent_facts g) as n eqn:e. revert g e.
  induction n as [n IH] using (well_founded_induction lt_wf). intros g -> I. constructor.
  intros g' st. apply (IH (absent_facts g')); auto.
  - now apply grow_less.
  - now apply (grow_step_inv g g').
Qed.

Theorem grow_exists g : ginv g -> exists g', grow holds g g'.
Proof.
  intros I. induction (grow_finite g I) as [g _ IH].
  destruct (queue g) as [|f q] eqn:e; [exists g; now constructor|].
  assert (grow_step holds g (take_new holds f (Growth (g_rank g) (g_support g) (pending g) ([] ++ q))))
    as st by (now constructor).
  destruct (IH _ st) as [g' run]; [now apply (grow_step_inv g _ I st)|].
  exists g'. now apply grow_next with (1 := st).
Qed.

End Invariant.

(** ** How it starts *)

Theorem start_grow_inv e db rank support :
  (forall f, present rank f = true ->
     support f = Nat.b2n (given_wave e db f) + supporting (holds_wave e db) rank f) ->
  (forall f, present rank f = true -> 1 <= support f) ->
  (forall f, given_wave e db f = true -> present rank f = true) ->
  (forall d, holds_left e db d = true -> stands rank d = true -> present rank (head d) = true) ->
  ginv (given_after e db) (holds_after e db) (start_grow e db rank support) /\
  g_rank (start_grow e db rank support) = rank.
Proof.
  intros ex le ba he. unfold start_grow; cbn zeta.
  set (news := fun d : deriv => _). set (l2 := map head (filter news derivs)).
  set (g0 := Growth _ _ _ _).
  pose proof (gain_all_spec l2 g0) as L. cbn zeta in L.
  set (g1 := gain_all l2 g0) in *. destruct L as (er1 & es1 & ep1 & el1).
  set (l1 := filter _ nodes).
  pose proof (gain_all_spec l1 g1) as L. cbn zeta in L.
  set (g2 := gain_all l1 g1) in *. destruct L as (er2 & es2 & ep2 & el2).
  rewrite er1 in *. change (g_rank g0) with rank in *.
  assert (forall f, count_occ node_eq l1 f = Nat.b2n (insert e f && negb (given_wave e db f))) as c1.
  { intros f. unfold l1. now rewrite count_nodes. }
  assert (forall f, count_occ node_eq l2 f = count (fun d => news d && same (head d) f) derivs) as c2.
  { intros f. unfold l2. now rewrite count_heads. }
  assert (forall f, Nat.b2n (given_after e db f) = Nat.b2n (given_wave e db f) +
    Nat.b2n (insert e f && negb (given_wave e db f))) as cg.
  { intros f. unfold given_after, given_wave.
    destruct (given_left e db f), (insert e f), (early_facts e f), (present (db_rank db) f);
      reflexivity. }
  split; [|assumption]. constructor; rewrite ?er2.
  - intros f p. rewrite es2, es1, p, c1, c2, cg. cbn [g_support g0]. rewrite ex by assumption.
    assert (supporting (holds_after e db) rank f = supporting (holds_wave e db) rank f +
      count (fun d => news d && same (head d) f) derivs); [|lia].
    apply count_split. intros d _.
    destruct (same (head d) f) eqn:hf; [|now rewrite !andb_false_r].
    apply same_spec in hf. unfold news, supports, holds_after, holds_wave. rewrite hf, p.
    destruct (holds_left e db d), (add e d), (early e d), (stands rank d),
      (height rank (body d) <? rank_of rank f); reflexivity.
  - intros f p. rewrite es2, es1, p. cbn [g_support g0]. specialize (le f p). lia.
  - intros f p. rewrite ep2, ep1, p, c1, c2, cg. cbn [pending g0].
    assert (given_wave e db f = false) as gl.
    { destruct (given_wave e db f) eqn:g; [|reflexivity]. rewrite (ba f g) in p. discriminate. }
    rewrite gl. cbn [Nat.b2n plus].
    enough (standing (holds_after e db) rank f = count (fun d => news d && same (head d) f) derivs)
      by lia.
    apply count_ext. intros d _.
    destruct (same (head d) f) eqn:hf; [|now rewrite !andb_false_r].
    apply same_spec in hf. unfold news, holds_after. rewrite hf, p.
    destruct (holds_left e db d) eqn:hl; cbn; [|btauto].
    destruct (stands rank d) eqn:st; [|reflexivity].
    specialize (he d hl st). rewrite hf in he. congruence.
  - intros f p. rewrite ep2, ep1, p. reflexivity.
  - apply el2, el1. split; cbn; [constructor|]. intros f. split; [easy|lia].
Qed.

End Grow.
