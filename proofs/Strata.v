(** Stratified negation: strata maintained one after another hold the perfect model.

    What lives here: derivations with negated premises, over facts that have a level. Premises of the
    level of the head are the body of that stratum's hypergraph; premises of lower levels, and negated
    ones, decide whether the derivation holds in it. So a stratum sees a change below it as derivations
    that are dropped and added, which is what Commit.v is about.
    Main theorems: [strata_model], a sound database for each stratum is the perfect model;
    [strata_commit] and [strata_commit_exists], a commit stratum by stratum leads to the next one. *)

From Coq Require Import Eqdep_dec.
From Deltafix Require Import Commit.

Class strata := {
  facts_and_rules : hypergraph;
  level : node -> nat;
  negated : deriv -> list node;
  body_level : forall d g, In g (body d) -> level g <= level (head d);
  negated_level : forall d g, In g (negated d) -> level g < level (head d) }.

#[export] Existing Instance facts_and_rules.

Section Strata.
Context {S_ : strata}.

(** ** What a program means *)

(** What follows in stratum [k], over what is true below. *)
Inductive follows (given : facts) (below : node -> Prop) (k : nat) : node -> Prop :=
| follows_given f : given f = true -> level f = k -> follows given below k f
| follows_by d : level (head d) = k ->
    (forall g, In g (body d) -> level g < k -> below g) ->
    (forall g, In g (negated d) -> ~ below g) ->
    (forall g, In g (body d) -> level g = k -> follows given below k g) ->
    follows given below k (head d).

(** The perfect model: what is true below stratum [k]. *)
Fixpoint model_below (given : facts) (k : nat) : node -> Prop :=
  match k with
  | 0 => fun _ => False
  | S k => fun f => model_below given k f \/ follows given (model_below given k) k f
  end.

Definition model (given : facts) (f : node) : Prop := model_below given (S (level f)) f.

Lemma follows_level given below k f : follows given below k f -> level f = k.
Proof. now destruct 1. Qed.

Lemma model_below_level given k f : model_below given k f -> level f < k.
Proof.
  induction k as [|k IH]; cbn; [easy|]. intros [m|m]; [apply IH in m; lia|].
  apply follows_level in m. lia.
Qed.

Lemma model_below_model given k f : level f < k -> (model_below given k f <-> model given f).
Proof.
  unfold model. induction k as [|k IH]; intros lt; [lia|].
  destruct (Nat.eq_dec (level f) k) as [->|n]; [reflexivity|].
  rewrite <- IH by lia. cbn. split; [|now left]. intros [m|m]; [assumption|].
  apply follows_level in m. contradiction.
Qed.

(** ** A hypergraph for each stratum *)

Definition stratum (k : nat) : hypergraph := {|
  node := node;
  deriv := deriv;
  head := head;
  body d := filter (fun g => level g =? k) (body d);
  node_eq := node_eq;
  nodes := nodes;
  nodes_all := nodes_all;
  nodes_once := nodes_once;
  derivs := derivs;
  derivs_all := derivs_all;
  derivs_once := derivs_once |}.

Definition database_of (k : nat) : Type := @database (stratum k).
Definition databases : Type := forall k, database_of k.

Definition is_present (dbs : databases) (f : node) : bool :=
  @present (stratum (level f)) (@db_rank (stratum (level f)) (dbs (level f))) f.

(** The input facts of a stratum. *)
Definition part (given : facts) (k : nat) : facts := fun f => given f && (level f =? k).

(** Whether a derivation is one of stratum [k], and its premises of lower strata are as it wants. *)
Definition admitted (dbs : databases) (k : nat) (d : deriv) : bool :=
  (level (head d) =? k)
  && forallb (fun g => (level g =? k) || is_present dbs g) (body d)
  && forallb (fun g => negb (is_present dbs g)) (negated d).

(** Each stratum keeps the contract, for the derivations that the strata below admit. *)
Record strata_sound (given_ : facts) (dbs : databases) (n : nat) : Prop := {
  each_sound : forall k, k < n -> @sound (stratum k) (dbs k);
  each_given : forall k, k < n -> forall f, @given (stratum k) (dbs k) f = part given_ k f;
  each_holds : forall k, k < n -> forall d, @holds (stratum k) (dbs k) d = admitted dbs k d }.

Lemma admitted_spec dbs k d : admitted dbs k d = true <->
  level (head d) = k /\
  (forall g, In g (body d) -> level g < k -> is_present dbs g = true) /\
  (forall g, In g (negated d) -> is_present dbs g = false).
Proof.
  unfold admitted. rewrite !andb_true_iff, Nat.eqb_eq, !forallb_forall. split.
  - intros [[hk pos] neg]. split; [assumption|]. split.
    + intros g i lt. specialize (pos g i). apply orb_true_iff in pos.
      destruct pos as [e|]; [apply Nat.eqb_eq in e; lia|assumption].
    + intros g i. specialize (neg g i). now apply negb_true_iff.
  - intros (hk & pos & neg). split; [split; [assumption|]|].
    + intros g i. apply orb_true_iff. pose proof (body_level d g i).
      destruct (Nat.eq_dec (level g) k); [left; now apply Nat.eqb_eq|right; apply pos; auto; lia].
    + intros g i. apply negb_true_iff. auto.
Qed.

(** Present in its stratum means true in the perfect model. *)
Theorem strata_model given_ dbs n : strata_sound given_ dbs n ->
  forall f, level f < n -> (is_present dbs f = true <-> model given_ f).
Proof.
  intros [so gi ho].
  assert (forall k, k < n -> forall f, level f = k -> (is_present dbs f = true <-> model given_ f))
    as all; [|intros f lt; now apply (all (level f))].
  induction k as [k IH] using (well_founded_induction lt_wf). intros kn f fk.
  unfold is_present. rewrite fk.
  rewrite (@contract_least_fixpoint (stratum k) _ _ _ _ (so k kn) f).
  assert (forall g, level g < k -> (is_present dbs g = true <-> model_below given_ k g)) as lower.
  { intros g lt. rewrite (IH (level g)), model_below_model by lia. reflexivity. }
  rewrite <- (model_below_model given_ (S k) f) by lia. split.
  - intros d. right. revert f d fk. apply (@derivable_least (stratum k)
      _ _ (fun f => level f = k -> follows given_ (model_below given_ k) k f)). split.
    + intros g gg gk. rewrite (gi k kn) in gg. unfold part in gg. apply andb_true_iff in gg.
      now apply follows_given.
    + intros d hd all dk. rewrite (ho k kn) in hd. apply admitted_spec in hd.
      destruct hd as (_ & pos & neg). apply follows_by; auto.
      * intros g i lt. apply lower; auto.
      * intros g i m. pose proof (negated_level d g i) as nl.
        apply lower in m; [|cbn in dk; lia]. rewrite (neg g i) in m. discriminate.
      * intros g i gk. apply all; [|assumption]. cbn. apply filter_In.
        split; [assumption|]. now apply Nat.eqb_eq.
  - intros [m|m]; [apply model_below_level in m; lia|]. clear fk.
    induction m as [g gg gk|d dk pos neg _ IHm].
    + apply (@derivable_given (stratum k)). rewrite (gi k kn). unfold part.
      rewrite gg. cbn. now apply Nat.eqb_eq.
    + apply (@derivable_by (stratum k)).
      * rewrite (ho k kn). apply admitted_spec. split; [assumption|]. split.
        -- intros g i lt. apply lower; auto.
        -- intros g i. destruct (is_present dbs g) eqn:p; [|reflexivity].
           destruct (neg g i). apply lower; [|assumption].
           rewrite <- dk. now apply negated_level.
      * cbn. intros g i. apply filter_In in i. destruct i as [i gk]. apply IHm; [assumption|].
        now apply Nat.eqb_eq.
Qed.

(** ** A commit, stratum by stratum *)

(** What an edit of input facts is for stratum [k] once the strata below are done: derivations that
    these no longer admit are dropped, those that they admit now are added. *)
Record seen (delete_ insert_ : facts) (dbs' : databases) (k : nat) (e : @edit (stratum k))
  : Prop := {
  seen_delete : forall f, @delete (stratum k) e f = part delete_ k f;
  seen_insert : forall f, @insert (stratum k) e f = part insert_ k f;
  seen_drop : forall d, @drop (stratum k) e d = negb (admitted dbs' k d);
  seen_add : forall d, @add (stratum k) e d = admitted dbs' k d }.

Definition stratum_commit (delete_ insert_ : facts) (dbs dbs' : databases) (k : nat) : Prop :=
  exists e, seen delete_ insert_ dbs' k e /\ @commit (stratum k) e (dbs k) (dbs' k).

Definition given_next (delete_ insert_ given_ : facts) : facts :=
  fun f => (given_ f && negb (delete_ f)) || insert_ f.

Theorem strata_commit delete_ insert_ given_ dbs dbs' n : strata_sound given_ dbs n ->
  (forall k, k < n -> stratum_commit delete_ insert_ dbs dbs' k) ->
  strata_sound (given_next delete_ insert_ given_) dbs' n.
Proof.
  intros [so gi ho] step. constructor; intros k kn; destruct (step k kn) as (e & [ed ei ex ea] & c).
  - now apply (@commit_sound (stratum k) _ _ _ (so k kn) c).
  - intros f. destruct c as [s g _ _]. cbn.
    unfold given_after, given_left, given_next. rewrite (gi k kn), ed, ei. unfold part.
    destruct (given_ f), (delete_ f), (insert_ f), (level f =? k); reflexivity.
  - intros d. rewrite <- ea. destruct c as [s g _ _]. cbn. unfold holds_after, holds_left.
    rewrite ex, <- ea. destruct (@add (stratum k) e d); [apply orb_true_r|].
    now rewrite andb_false_r.
Qed.

(** What stratum [k] admits depends on the strata below it only. *)
Lemma admitted_below dbs dbs' k d : (forall j, j < k -> dbs j = dbs' j) ->
  admitted dbs k d = admitted dbs' k d.
Proof.
  intros e. assert (forall g, level g < k -> is_present dbs g = is_present dbs' g) as p.
  { intros g lt. unfold is_present. now rewrite e. }
  apply eq_true_iff_eq. rewrite !admitted_spec. split; intros (dk & pos & neg);
    (split; [assumption|]; split; [intros g i lt|intros g i]).
  - rewrite <- p; auto.
  - rewrite <- p; auto. rewrite <- dk. now apply negated_level.
  - rewrite p; auto.
  - rewrite p; auto. rewrite <- dk. now apply negated_level.
Qed.

(** [dbs] with another database for stratum [k]. *)
Definition with_stratum (k : nat) (db : database_of k) (dbs : databases) : databases :=
  fun j => match Nat.eq_dec k j with
    | left e => eq_rect k database_of db j e
    | right _ => dbs j
    end.

Lemma with_stratum_same k db dbs : with_stratum k db dbs k = db.
Proof.
  unfold with_stratum. destruct (Nat.eq_dec k k) as [e|]; [|congruence].
  now rewrite (UIP_dec Nat.eq_dec e eq_refl).
Qed.

Lemma with_stratum_other k db dbs j : k <> j -> with_stratum k db dbs j = dbs j.
Proof. unfold with_stratum. destruct (Nat.eq_dec k j); congruence. Qed.

(** There is a next state: strata are done from the lowest up. *)
Theorem strata_commit_exists delete_ insert_ dbs n :
  (forall k, k < n -> @sound (stratum k) (dbs k)) ->
  exists dbs', forall k, k < n -> stratum_commit delete_ insert_ dbs dbs' k.
Proof.
  induction n as [|n IH]; intros so; [exists dbs; lia|].
  destruct IH as [dbs' done]; [auto|].
  set (e := @Edit (stratum n) (part delete_ n) (part insert_ n)
    (fun d => negb (admitted dbs' n d)) (fun d => admitted dbs' n d)
    (fun _ => false) (fun _ => false)).
  destruct (@commit_exists (stratum n) e (dbs n) (so n (Nat.lt_succ_diag_r n))) as [db step].
  exists (with_stratum n db dbs'). intros k kn.
  assert (forall d, admitted (with_stratum n db dbs') k d = admitted dbs' k d) as same_.
  { intros d. apply admitted_below. intros i lt. apply with_stratum_other. lia. }
  destruct (Nat.eq_dec k n) as [->|ne].
  - exists e. rewrite with_stratum_same. split; [|assumption].
    constructor; intros; rewrite ?same_; reflexivity.
  - destruct (done k) as (e' & [ed ei ex ea] & c); [lia|].
    exists e'. rewrite with_stratum_other by lia. split; [|assumption].
    constructor; intros; rewrite ?same_; auto.
Qed.

(** Before the first commit nothing is given, and no derivation holds in any stratum; the first commit
    adds what the strata below admit. *)
Theorem strata_commit_empty delete_ insert_ dbs' n :
  (forall k, k < n -> stratum_commit delete_ insert_ (fun k => @empty (stratum k)) dbs' k) ->
  strata_sound insert_ dbs' n.
Proof.
  intros step. constructor; intros k kn; destruct (step k kn) as (e & [ed ei ex ea] & c).
  - exact (@commit_sound (stratum k) _ _ _ (@empty_sound (stratum k)) c).
  - intros f. destruct c as [s g _ _]. cbn. unfold given_after, given_left. cbn. now rewrite ei.
  - intros d. rewrite <- ea. destruct c as [s g _ _]. reflexivity.
Qed.

End Strata.
