/**
 * The error of a database that this program refuses because of its contents or its state: a newer schema, an unfinished
 * restore, a move, a lock. The message says what the operator has to do. UnsuitableServer (connect.ts) is the error of
 * an unsuitable server.
 */
export class RefusedDatabase extends Error {
  override readonly name = 'RefusedDatabase';
}
