/** A value: whole numbers beyond 2^53 - 1, decimals, days and moments are strings. */
export type Value = number | string | boolean | null | Value[] | { [name: string]: Value };
export type Row = { [column: string]: Value };

/** A row, and how often a view has it: more than once only where SQL's views have duplicates. */
export interface Held<R> { readonly row: R; readonly count: number }
export type Rows<R> = Map<string, Held<R>>;

export interface Delta<R> { readonly epoch: number; readonly added: R[]; readonly removed: R[] }

/** Of which rows: those that have these values. */
export interface Wanted<R> { where?: Partial<R> }

export interface Handlers<R> extends Wanted<R> {
  /** The rows, at the beginning and whenever they had to be read again. */
  onSnapshot?(rows: Rows<R>, epoch: number): void;
  /** What an epoch changed; `rows` have it already. */
  onDelta?(delta: Delta<R>, rows: Rows<R>): void;
  /** What went wrong, and whether it is tried again by itself. */
  onError?(error: Error | Refused, again: boolean): void;
}

export interface Subscription<R> {
  readonly rows: Rows<R>;
  /** The last epoch that changed the rows; -1 before the first snapshot. */
  readonly epoch: number;
  /** Resolved once it is closed, or refused for good. */
  readonly ended: Promise<void>;
  close(): void;
}

export interface Column { name: string; type: string; nullable: boolean }
export interface Relation {
  name: string;
  kind: "table" | "view" | "input" | "derived";
  columns: Column[];
}

export type Edit =
  | { insert: string; row: Row | Value[] }
  | { update: string; row: Row }
  | { delete: string; row: Row | Value[] };
export interface Edited { epoch: number; inserted: number; updated: number; deleted: number }

/** An answer that refuses: `code` is the error's, `line` that of the edit, from 1. */
export class Refused extends Error {
  readonly code: string;
  readonly line?: number;
  readonly status: number;
}

export interface Event { id: string; event: string; data: string }

export interface Client {
  relations(): Promise<{ epoch: number; writable: boolean; relations: Relation[] }>;
  /** All rows, as of one epoch; `id` is where `live/changes` goes on. */
  rows<R = Row>(view: string, of?: Wanted<R> & { signal?: AbortSignal }): Promise<{ rows: R[]; epoch: number; id: string }>;
  subscribe<R = Row>(view: string, handlers?: Handlers<R>): Subscription<R>;
  /** Edits as one transaction: all of them, or an error and none. */
  edit(edits: Edit[]): Promise<Edited>;
  insert(relation: string, rows: (Row | Value[])[]): Promise<Edited>;
  /** Set columns of rows of a table, each by its primary key. */
  update(table: string, rows: Row[]): Promise<Edited>;
  remove(relation: string, rows: (Row | Value[])[]): Promise<Edited>;
  /** The answer to a question of the page. */
  ask(path: string, parameters?: Record<string, string | number>, options?: RequestInit): Promise<any>;
  post(path: string, body: string, type?: string): Promise<any>;
  /** Server-sent events of a path, over reconnects. */
  listen(path: string, options: {
    signal: AbortSignal;
    /** "again" connects anew at once. */
    onEvent(event: Event): string | void;
    onError?(error: Error, again: boolean): void;
    begin?(): void | Promise<void>;
    place?: { id?: string };
  }): Promise<void>;
}

export interface Options {
  /** The key, where the address does not have it. */
  token?: string;
  /** Milliseconds before the first new attempt to connect; doubled up to twenty times that. */
  retry?: number;
  /** Rows that are asked for at once. */
  pageSize?: number;
}
export function connect(url: string | URL, options?: Options): Client;
