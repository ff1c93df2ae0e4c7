/** Base class of the client's resources: calls of operations, and lists as pages. */
import { type Page, Pages } from './pages.ts';
import type { Body, OperationId, Query, Result, Transport } from './transport.ts';

export type ChangeOptions = {
  /**
   * The `etag` of the object that you have read. The service refuses the change with 412 if somebody has changed the
   * object since, so that it overwrites nothing unseen.
   */
  ifMatch?: string | undefined;
};

/** Returns the header with which the service makes a change on this condition. */
export function conditionOf({ ifMatch }: ChangeOptions = {}): Record<string, string> | undefined {
  return ifMatch === undefined ? undefined : { 'if-match': ifMatch };
}

export class Resource {
  protected readonly transport: Transport;

  constructor(transport: Transport) {
    this.transport = transport;
  }

  /** @param path values of the path's parameters */
  protected call<Id extends OperationId>(
    id: Id,
    path: Record<string, string | number> = {},
    body?: Body<Id>,
    headers?: Record<string, string>,
  ): Promise<Result<Id>> {
    return this.transport.json(id, { path, body, headers });
  }

  protected pages<Id extends ListId>(
    id: Id,
    { path, query, positionOf = idOf }: Listing<Id>,
  ): Pages<Item<Id>> {
    return new Pages(async (after) => {
      // Later pages omit `before`, which would bound them from the other side.
      const rest = after === undefined ? query : { ...query, after, before: undefined };
      return this.transport.json(id, { path, query: rest });
    }, positionOf);
  }
}

type ListId = {
  [Id in OperationId]: Result<Id> extends Page<unknown> ? Id : never;
}[OperationId];
type Item<Id extends ListId> = Result<Id>['data'][number];
type Listing<Id extends ListId> = {
  path?: Record<string, string>;
  query: Query<Id>;
  positionOf?: (item: Item<Id>) => string;
};

function idOf(item: object): string {
  return String((item as { id?: string }).id);
}
