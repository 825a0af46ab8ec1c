(** A commit keeps the contract, ends, and its delta is exact.

    Main theorems, for any mix of deleted and inserted facts, dropped and added derivations:
    [commit_contract]         the contract holds again, for what is given and holds now;
    [commit_least_fixpoint]   present is what is derivable now;
    [commit_delta]            added is new without old, removed is old without new;
    [commit_delta_local]      and both are told by what the wave and [grow] took up;
    [commit_exists], [commit_finite]   a commit has an end, whichever way its queues are emptied.
    [same_arrival]: how edits are cut into commits does not change what is present. *)

From Deltafix Require Export Wave Order Grow.

Section Commit.
Context {H : hypergraph}.

(** The contract of a database between commits. *)
Definition sound (db : database) : Prop :=
  contract (given db) (holds db) (db_rank db) (db_support db).

(** The database before the first commit. *)
Definition empty : database :=
  Database (fun _ => false) (fun _ => false) (fun _ => None) (fun _ => 0).

Theorem empty_sound : sound empty.
Proof. constructor; cbn; discriminate. Qed.

Lemma left_closed e db : sound db -> forall d, holds_left e db d = true ->
  (forall g, In g (body d) -> present (db_rank db) g = true) ->
  present (db_rank db) (head d) = true.
Proof.
  intros [_ _ _ heads] d hd all. apply heads; [|now apply stands_spec].
  unfold holds_left in hd. apply andb_true_iff in hd. tauto.
Qed.

Lemma start_wave_inv e db : sound db ->
  inv (given_left e db) (holds_left e db) (present (db_rank db)) (start_wave e db) /\
  ordered (holds_left e db) 0 (start_wave e db).
Proof.
  intros [ex le ba he]. unfold start_wave.
  set (l1 := map head (filter _ derivs)). set (s0 := State _ _ _ _ _ _ _).
  pose proof (lose_all_spec l1 s0) as L. cbn zeta in L. set (s1 := lose_all l1 s0) in *.
  destruct L as (er1 & el1 & em1 & ef1 & ev1 & ec1 & keep1 & zero1 & only1).
  set (l2 := filter _ nodes).
  pose proof (lose_all_spec l2 s1) as L. cbn zeta in L. set (s2 := lose_all l2 s1) in *.
  destruct L as (er2 & el2 & em2 & ef2 & ev2 & ec2 & keep2 & zero2 & only2).
  rewrite er1 in *. rewrite el1 in el2. rewrite em1 in em2. rewrite ef1 in ef2. rewrite ev1 in ev2.
  change (rank s0) with (db_rank db) in *. change (limbo s0) with (fun _ : node => @None (option nat)) in *.
  change (moved s0) with (@nil node) in *. change (fallen s0) with (@nil node) in *.
  change (revived s0) with (@nil node) in *.
  assert (forall f, support s2 f = db_support db f
    - count (fun d => holds db d && drop e d && supports (db_rank db) d && same (head d) f) derivs
    - Nat.b2n (given db f && delete e f)) as ec.
  { intros f. rewrite ec2, ec1. unfold l1, l2. now rewrite count_heads, count_nodes. }
  split; [|constructor; rewrite ?em2, ?ef2, ?ev2; try apply NoDup_nil; try easy; intros; lia].
  constructor; rewrite ?er2, ?el2.
  - intros f p. rewrite ec, (ex f p).
    assert (Nat.b2n (given db f) = Nat.b2n (given_left e db f) + Nat.b2n (given db f && delete e f))
      as cg by (unfold given_left; destruct (given db f), (delete e f); reflexivity).
    assert (supporting (holds db) (db_rank db) f = supporting (holds_left e db) (db_rank db) f +
      count (fun d => holds db d && drop e d && supports (db_rank db) d && same (head d) f) derivs)
      as cd; [|lia].
    apply count_split. intros d _. unfold holds_left.
    destruct (holds db d), (drop e d), (same (head d) f), (supports (db_rank db) d); reflexivity.
  - intros f p z. destruct (in_dec node_eq f l2) as [i2|n2]; [now apply zero2|].
    assert (support s1 f = 0) as z1.
    { rewrite ec2 in z. apply (count_occ_not_In node_eq) in n2. lia. }
    apply keep2. destruct (in_dec node_eq f l1) as [i1|n1]; [now apply zero1|].
    rewrite ec1 in z1. apply (count_occ_not_In node_eq) in n1.
    change (support s0 f) with (db_support db f) in z1. specialize (le f p). lia.
  - intros f gf. apply ba. unfold given_left in gf. apply andb_true_iff in gf. tauto.
  - intros f. split; [now left|]. intros [p|n]; [assumption|now destruct n].
  - intros f n. now destruct n.
  - intros d hd st. left. apply he; [|assumption].
    unfold holds_left in hd. apply andb_true_iff in hd. tauto.
  - discriminate.
Qed.

(** What a commit went through. *)
Lemma commit_inv e db db' : sound db -> commit e db db' -> exists s,
  (forall f, present (db_rank db) f = true <->
     present (rank s) f = true \/ limbo s f <> None) /\
  (forall f, limbo s f <> None -> present (rank s) f = false) /\
  (forall f, present (rank s) f = true -> db_rank db' f = rank s f) /\
  (NoDup (moved s) /\ NoDup (fallen s) /\ NoDup (revived s)) /\
  sound db' /\ given db' = given_after e db /\ holds db' = holds_after e db.
Proof.
  intros S [s g W G]. destruct (start_wave_inv e db S) as [I O].
  pose proof (left_closed e db S) as cl.
  destruct (wave_inv _ _ _ cl _ _ I W) as [I' over].
  destruct (wave_end _ _ _ _ I' over) as [C _].
  destruct (start_grow_inv e db (rank s) (support s) C) as [GI er].
  destruct (grow_inv _ _ _ _ GI G) as (GI' & q & k). rewrite er in k.
  exists s. repeat split; auto.
  - apply (kept _ _ _ s I').
  - apply (kept _ _ _ s I').
  - apply (apart _ _ _ s I').
  - apply (each_once _ _ _ cl 0 _ _ I O W).
  - apply (each_once _ _ _ cl 0 _ _ I O W).
  - apply (each_once _ _ _ cl 0 _ _ I O W).
  - apply (grow_end _ _ _ GI' q).
  - apply (grow_end _ _ _ GI' q).
  - apply (grow_end _ _ _ GI' q).
  - apply (grow_end _ _ _ GI' q).
Qed.

Theorem commit_contract e db db' : sound db -> commit e db db' ->
  contract (given_after e db) (holds_after e db) (db_rank db') (db_support db').
Proof.
  intros S C. destruct (commit_inv e db db' S C) as (s & _ & _ & _ & _ & S' & eg & eh).
  unfold sound in S'. now rewrite eg, eh in S'.
Qed.

Theorem commit_sound e db db' : sound db -> commit e db db' -> sound db'.
Proof. intros S C. now destruct (commit_inv e db db' S C) as (s & _ & _ & _ & _ & S' & _). Qed.

Theorem commit_least_fixpoint e db db' : sound db -> commit e db db' ->
  forall f, present (db_rank db') f = true <->
    derivable (given_after e db) (holds_after e db) f.
Proof.
  intros S C. apply contract_least_fixpoint with (support := db_support db').
  now apply commit_contract.
Qed.

Theorem commit_delta e db db' : sound db -> commit e db db' -> forall f,
  let old := derivable (given db) (holds db) f in
  let new := derivable (given_after e db) (holds_after e db) f in
  (added db db' f = true <-> new /\ ~ old) /\ (removed db db' f = true <-> old /\ ~ new).
Proof.
  intros S C f. cbn zeta. pose proof (commit_least_fixpoint e db db' S C f) as new.
  pose proof (contract_least_fixpoint _ _ _ _ S f) as old.
  rewrite <- new, <- old. unfold added, removed.
  rewrite !andb_true_iff, !negb_true_iff, <- !not_true_iff_false. tauto.
Qed.

(** The delta needs no comparison of whole states: what was added is what [grow] made present and
    the wave did not have in limbo; what was removed is what the wave left in limbo and [grow] did
    not bring back. All else kept its presence, and what the wave left present keeps its rank. *)
Theorem commit_delta_local e db db' : sound db -> commit e db db' -> exists s,
  (forall f, added db db' f = true <->
     (present (db_rank db') f = true /\ present (rank s) f = false) /\ limbo s f = None) /\
  (forall f, removed db db' f = true <-> limbo s f <> None /\ present (db_rank db') f = false) /\
  (forall f, present (rank s) f = true -> db_rank db' f = rank s f) /\
  (NoDup (moved s) /\ NoDup (fallen s) /\ NoDup (revived s)).
Proof.
  intros S C. destruct (commit_inv e db db' S C) as (s & ke & ap & k & once & _).
  exists s. split; [|split; [|now split]].
  - intros f. unfold added. rewrite andb_true_iff, negb_true_iff, <- !not_true_iff_false, ke.
    destruct (limbo s f); intuition congruence.
  - intros f. unfold removed. rewrite andb_true_iff, negb_true_iff, ke.
    split; [|intuition]. intros [[p|l] a]; [|now split].
    exfalso. unfold present in a, p. rewrite (k f) in a; [|exact p]. destruct (rank s f); congruence.
Qed.

(** Both loops of a commit end, whatever is taken first among what may be taken. *)
Theorem commit_finite e db : sound db ->
  Acc (fun b a => wave_step (holds_left e db) a b) (start_wave e db) /\
  forall s, wave (holds_left e db) (start_wave e db) s ->
    Acc (fun b a => grow_step (holds_after e db) a b) (start_grow e db (rank s) (support s)).
Proof.
  intros S. destruct (start_wave_inv e db S) as [I O]. pose proof (left_closed e db S) as cl. split.
  - exact (wave_finite _ _ _ cl 0 _ I O).
  - intros s W. destruct (wave_inv _ _ _ cl _ _ I W) as [I' over].
    destruct (wave_end _ _ _ _ I' over) as [C _].
    apply (grow_finite (given_after e db)). now apply start_grow_inv.
Qed.

Theorem commit_exists e db : sound db -> exists db', commit e db db'.
Proof.
  intros S. destruct (start_wave_inv e db S) as [I O]. pose proof (left_closed e db S) as cl.
  destruct (wave_exists _ _ _ cl 0 _ I O) as [s W].
  destruct (wave_inv _ _ _ cl _ _ I W) as [I' over].
  destruct (wave_end _ _ _ _ I' over) as [C _].
  destruct (start_grow_inv e db (rank s) (support s) C) as [GI _].
  destruct (grow_exists _ _ _ GI) as [g G].
  eexists. exact (committed e db s g W G).
Qed.

(** ** Splitting one transaction into many *)

Inductive commits : list edit -> database -> database -> Prop :=
| commits_none db : commits [] db db
| commits_more e l db db' db'' : commit e db db' -> commits l db' db'' -> commits (e :: l) db db''.

Lemma commits_sound l db db' : sound db -> commits l db db' -> sound db'.
Proof.
  intros S C. induction C as [|e l db db' db'' c _ IH]; [assumption|].
  apply IH. now apply (commit_sound e db).
Qed.

(** Two histories that end with the same facts given and the same derivations have the same facts
    present, whatever ranks they came to. *)
Theorem same_arrival l l' db db1 db2 : sound db -> commits l db db1 -> commits l' db db2 ->
  (forall f, given db1 f = given db2 f) -> (forall d, holds db1 d = holds db2 d) ->
  forall f, present (db_rank db1) f = present (db_rank db2) f.
Proof.
  intros S C1 C2 eg eh f. apply eq_true_iff_eq.
  rewrite (contract_least_fixpoint _ _ _ _ (commits_sound _ _ _ S C1) f).
  rewrite (contract_least_fixpoint _ _ _ _ (commits_sound _ _ _ S C2) f).
  split; apply derivable_least; split.
  - intros g gg. apply derivable_given. now rewrite <- eg.
  - intros d hd. apply derivable_by. now rewrite <- eh.
  - intros g gg. apply derivable_given. now rewrite eg.
  - intros d hd. apply derivable_by. now rewrite eh.
Qed.

End Commit.
