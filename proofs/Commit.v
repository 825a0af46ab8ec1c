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

Lemma save_all_spec heads : forall s, let s' := save_all heads s in
  rank s' = rank s /\ suspects s' = suspects s /\ limbo s' = limbo s /\ moved s' = moved s /\
  fallen s' = fallen s /\ revived s' = revived s /\
  forall f, support s' f = support s f + count_occ node_eq heads f.
Proof.
  induction heads as [|x heads IH]; intros s; cbn zeta.
  - cbn. repeat split. intros f. lia.
  - change (save_all (x :: heads) s) with (save_all heads (save s x)).
    destruct (IH (save s x)) as (r & q & l & m & fa & re & c). cbn in *. repeat split; auto.
    intros f. rewrite c. unfold set. destruct (node_eq x f) as [->|]; lia.
Qed.

Lemma start_wave_inv e db : sound db ->
  inv (given_wave e db) (holds_wave e db) (present (db_rank db)) (start_wave e db) /\
  ordered (holds_wave e db) 0 (start_wave e db).
Proof.
  intros [ex le ba he]. unfold start_wave; cbn zeta.
  set (l1 := map head (filter (fun d => holds db d && _ && _) derivs)). set (s0 := State _ _ _ _ _ _ _).
  pose proof (lose_all_spec l1 s0) as L. cbn zeta in L. set (s1 := lose_all l1 s0) in *.
  destruct L as (er1 & el1 & em1 & ef1 & ev1 & ec1 & keep1 & zero1 & only1).
  set (l2 := filter (fun f => given db f && _) nodes).
  pose proof (lose_all_spec l2 s1) as L. cbn zeta in L. set (s2 := lose_all l2 s1) in *.
  destruct L as (er2 & el2 & em2 & ef2 & ev2 & ec2 & keep2 & zero2 & only2).
  set (l3 := map head (filter _ derivs)).
  pose proof (save_all_spec l3 s2) as L. cbn zeta in L. set (s3 := save_all l3 s2) in *.
  destruct L as (er3 & eq3 & el3 & em3 & ef3 & ev3 & ec3).
  set (l4 := filter _ nodes).
  pose proof (save_all_spec l4 s3) as L. cbn zeta in L. set (s4 := save_all l4 s3) in *.
  destruct L as (er4 & eq4 & el4 & em4 & ef4 & ev4 & ec4).
  rewrite er1 in *. rewrite er2 in er3. rewrite er3 in er4. rewrite eq3 in eq4.
  rewrite el1 in el2. rewrite el2 in el3. rewrite el3 in el4.
  rewrite em1 in em2. rewrite em2 in em3. rewrite em3 in em4.
  rewrite ef1 in ef2. rewrite ef2 in ef3. rewrite ef3 in ef4.
  rewrite ev1 in ev2. rewrite ev2 in ev3. rewrite ev3 in ev4.
  change (rank s0) with (db_rank db) in *. change (limbo s0) with (fun _ : node => @None (option nat)) in *.
  change (moved s0) with (@nil node) in *. change (fallen s0) with (@nil node) in *.
  change (revived s0) with (@nil node) in *.
  assert (forall f, support s4 f = support s2 f
    + count (fun d => negb (holds_left e db d) && add e d && early e d && supports (db_rank db) d
        && same (head d) f) derivs
    + Nat.b2n (negb (given_left e db f) && given_wave e db f)) as es.
  { intros f. rewrite ec4, ec3. unfold l3, l4. now rewrite count_heads, count_nodes. }
  assert (forall f, support s2 f = db_support db f
    - count (fun d => holds db d && drop e d && supports (db_rank db) d && same (head d) f) derivs
    - Nat.b2n (given db f && delete e f)) as ec.
  { intros f. rewrite ec2, ec1. unfold l1, l2. now rewrite count_heads, count_nodes. }
  split; [|constructor; rewrite ?em4, ?ef4, ?ev4; try apply NoDup_nil; try easy; intros; lia].
  constructor; rewrite ?er4, ?el4, ?eq4.
  - intros f p. rewrite es, ec, (ex f p).
    assert (Nat.b2n (given db f) = Nat.b2n (given_left e db f) + Nat.b2n (given db f && delete e f))
      as cg by (unfold given_left; destruct (given db f), (delete e f); reflexivity).
    assert (Nat.b2n (given_wave e db f) = Nat.b2n (given_left e db f)
      + Nat.b2n (negb (given_left e db f) && given_wave e db f)) as cw.
    { unfold given_wave. destruct (given_left e db f); [reflexivity|]. now rewrite orb_false_l. }
    assert (supporting (holds db) (db_rank db) f = supporting (holds_left e db) (db_rank db) f +
      count (fun d => holds db d && drop e d && supports (db_rank db) d && same (head d) f) derivs)
      as cd.
    { apply count_split. intros d _. unfold holds_left.
      destruct (holds db d), (drop e d), (same (head d) f), (supports (db_rank db) d); reflexivity. }
    assert (supporting (holds_wave e db) (db_rank db) f = supporting (holds_left e db) (db_rank db) f
      + count (fun d => negb (holds_left e db d) && add e d && early e d && supports (db_rank db) d
          && same (head d) f) derivs) as cs; [|lia].
    apply count_split. intros d _. unfold holds_wave.
    destruct (holds_left e db d), (add e d), (early e d), (same (head d) f),
      (supports (db_rank db) d); reflexivity.
  - intros f p z4. assert (support s2 f = 0) as z by (rewrite es in z4; lia).
    destruct (in_dec node_eq f l2) as [i2|n2]; [now apply zero2|].
    assert (support s1 f = 0) as z1.
    { rewrite ec2 in z. apply (count_occ_not_In node_eq) in n2. lia. }
    apply keep2. destruct (in_dec node_eq f l1) as [i1|n1]; [now apply zero1|].
    rewrite ec1 in z1. apply (count_occ_not_In node_eq) in n1.
    change (support s0 f) with (db_support db f) in z1. specialize (le f p). lia.
  - intros f gf. unfold given_wave in gf. apply orb_true_iff in gf. destruct gf as [gf|gf].
    + apply ba. unfold given_left in gf. apply andb_true_iff in gf. tauto.
    + apply andb_true_iff in gf. tauto.
  - intros f. split; [now left|]. intros [p|n]; [assumption|now destruct n].
  - intros f n. now destruct n.
  - intros d _ bh _. now left.
  - discriminate.
Qed.

(** Where the wave ends, [grow] can start. *)
Lemma wave_grow e db s : sound db -> wave (holds_wave e db) (start_wave e db) s ->
  inv (given_wave e db) (holds_wave e db) (present (db_rank db)) s /\
  ginv (given_after e db) (holds_after e db) (start_grow e db (rank s) (support s)) /\
  g_rank (start_grow e db (rank s) (support s)) = rank s.
Proof.
  intros S W. destruct (start_wave_inv e db S) as [I _].
  destruct (wave_inv _ _ _ _ _ I W) as [I' over]. split; [assumption|].
  destruct (wave_end _ _ _ _ I' over) as (ex & le & ba & he & ke).
  apply start_grow_inv; auto. intros d hl st. apply he; [|apply (heads_present _ _ _ _ S)|assumption].
  - unfold holds_wave. now rewrite hl.
  - unfold holds_left in hl. apply andb_true_iff in hl. tauto.
  - apply stands_spec. intros g i. apply ke. left. rewrite stands_spec in st. auto.
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
  destruct (wave_grow e db s S W) as [I' GI]. destruct GI as [GI er].
  destruct (grow_inv _ _ _ _ GI G) as (GI' & q & k). rewrite er in k.
  exists s. repeat split; auto.
  - apply (kept _ _ _ s I').
  - apply (kept _ _ _ s I').
  - apply (apart _ _ _ s I').
  - apply (each_once _ _ _ 0 _ _ I O W).
  - apply (each_once _ _ _ 0 _ _ I O W).
  - apply (each_once _ _ _ 0 _ _ I O W).
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
  Acc (fun b a => wave_step (holds_wave e db) a b) (start_wave e db) /\
  forall s, wave (holds_wave e db) (start_wave e db) s ->
    Acc (fun b a => grow_step (holds_after e db) a b) (start_grow e db (rank s) (support s)).
Proof.
  intros S. destruct (start_wave_inv e db S) as [I O]. split.
  - exact (wave_finite _ _ _ 0 _ I O).
  - intros s W. apply (grow_finite (given_after e db)). now apply (wave_grow e db s S W).
Qed.

Theorem commit_exists e db : sound db -> exists db', commit e db db'.
Proof.
  intros S. destruct (start_wave_inv e db S) as [I O].
  destruct (wave_exists _ _ _ 0 _ I O) as [s W].
  destruct (wave_grow e db s S W) as [_ [GI _]].
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
