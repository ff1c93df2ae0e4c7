/** Caches the published versions of templates in their parsed form. They never change, so they are never read again. */
import { LRUCache } from 'lru-cache';
import { isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Queryable } from '../database/database.ts';
import { readInTurn, type TemplateParts } from './rendering.ts';
import * as store from './template-store.ts';

type PublishedTemplate = {
  id: string;
  key: string;
  parts: TemplateParts;
  declared: readonly store.TemplateVariable[];
  size: number;
};

/** Limit on the source characters of the parsed templates that a worker caches. */
const CACHED_SOURCE_MAX = 4 * 1024 * 1024;

export class PublishedTemplates {
  readonly #db: Queryable;
  readonly #cache = new LRUCache<string, PublishedTemplate>({
    maxSize: CACHED_SOURCE_MAX,
    sizeCalculation: ({ size }) => size,
  });

  constructor(db: Queryable) {
    this.#db = db;
  }

  async find(scope: Scope, idOrAlias: string): Promise<PublishedTemplate | Refusal> {
    const head = await store.findTemplate(this.#db, scope, idOrAlias);
    if (head === null) return refuseId('there is no template with this id or alias');
    if (head.publishedVersion === null) return refuseId('has no published version; publish it');
    const key = `${head.id} ${head.publishedVersion}`;
    return this.#cache.get(key) ?? this.#load(scope, head, key);
  }

  async #load(
    scope: Scope,
    { id, publishedVersion }: store.TemplateHead,
    key: string,
  ): Promise<PublishedTemplate | Refusal> {
    const version = publishedVersion ?? 0;
    const content = await store.findVersion(this.#db, scope, { id, version });
    if (content === null) return refuseId('there is no template with this id or alias');
    const parts = await readInTurn(scope, content);
    if (isRefusal(parts)) return parts;
    const { subject, html, text, variables } = content;
    const size = 1_000 + subject.length + (html?.length ?? 0) + (text?.length ?? 0);
    const published = { id, key, parts, declared: variables, size };
    this.#cache.set(key, published);
    return published;
  }
}

function refuseId(message: string): Refusal {
  return refuseFields([{ field: 'template.id', message }]);
}
