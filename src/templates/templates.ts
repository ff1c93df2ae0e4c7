/**
 * Templates for the HTTP API and the command line: versions (template-store.ts), rendered for previews and for
 * accepted emails.
 *
 * Guarantee: a stored template can be rendered, and every variable that it reads is declared. A refusal names the
 * field. Emails use the published version. Reading and rendering a part takes at most about 20 ms (liquid.ts). A
 * project reads or renders one part at a time, and other work of the process runs in between.
 */
import { ANY_STATE, entityTagOf, type IsExpected } from '../core/entity-tag.ts';
import { CHANGED_SINCE, isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import type { Database, Queryable } from '../database/database.ts';
import type { Page, PageResult } from '../database/page.ts';
import * as store from './template-store.ts';
import { PublishedTemplates } from './published-templates.ts';
import {
  readInTurn,
  type RenderedTemplate,
  renderParts,
  renderWithinBudget,
  runInTurn,
} from './rendering.ts';
import type { Syntax } from '../move-in/translate.ts';
import {
  type ForeignContent,
  translateTemplate,
  type Translation,
} from '../move-in/template-translation.ts';
import type { RequestWork } from './work.ts';

/** `content` is the latest version, unless the request names another one. */
export type Template = { head: store.TemplateHead; content: store.TemplateVersion };

export type NewTemplate = store.TemplateContent & Pick<store.TemplateHead, 'name' | 'alias'>;
export type TemplateChange = { [Field in keyof NewTemplate]?: NewTemplate[Field] | undefined };
type ContentChange = Omit<TemplateChange, 'name' | 'alias'>;

type Values = Readonly<Record<string, unknown>>;

const NO_TEMPLATE: Refusal = {
  refused: 'not_found',
  message: 'There is no template with this id or alias.',
};

const NO_SUBJECT: Refusal = refuseFields([
  { field: 'subject', message: 'is required, since the template has none' },
]);

const NO_VERSION: Refusal = {
  refused: 'not_found',
  message: 'The template has no such version.',
};

const CHANGED_MEANWHILE: Refusal = {
  refused: 'conflict',
  message:
    'The template was changed by another request at the same time; look at it and try again.',
};

/** `savedBy` is the address of a member; null for an API key. */
type ChangeContext = { isExpected?: IsExpected; savedBy?: string | null };

export class TemplateService {
  readonly #db: Database;
  readonly #published: PublishedTemplates;

  constructor({ db }: { db: Database }) {
    this.#db = db;
    this.#published = new PublishedTemplates(db);
  }

  async create(
    scope: Scope,
    template: NewTemplate,
    savedBy: string | null = null,
  ): Promise<Template | Refusal> {
    const parts = await readInTurn(scope, template);
    if (isRefusal(parts)) return parts;
    const head = await store.createTemplate(this.#db, scope, { ...template, savedBy });
    return head === null ? refuseAlias(template.alias) : loadContent(this.#db, scope, head);
  }

  /** @param page.part text in the name or alias, in any case; null lists all */
  list(
    scope: Scope,
    page: Page & { part?: string | null },
  ): Promise<PageResult<store.TemplateHead>> {
    return store.listTemplates(this.#db.readsOf(scope.projectId), scope, page);
  }

  /** @param idOrAlias of the template, here and below */
  async get(scope: Scope, idOrAlias: string, version?: number): Promise<Template | Refusal> {
    const head = await store.findTemplate(this.#db, scope, idOrAlias);
    return head === null ? NO_TEMPLATE : loadContent(this.#db, scope, head, version);
  }

  async versions(scope: Scope, idOrAlias: string): Promise<store.VersionSummary[] | Refusal> {
    const head = await store.findTemplate(this.#db, scope, idOrAlias);
    return head === null ? NO_TEMPLATE : store.listVersions(this.#db, scope, head.id);
  }

  /**
   * Omitted fields do not change. A change of published content, or of a draft that somebody else saved, creates the
   * next version. The content is read outside of the transaction. The transaction then checks that it has not changed.
   */
  async update(
    scope: Scope,
    idOrAlias: string,
    change: TemplateChange,
    { isExpected = ANY_STATE, savedBy = null }: ChangeContext = {},
  ): Promise<Template | Refusal> {
    const before = await this.get(scope, idOrAlias);
    if (isRefusal(before)) return before;
    if (!isExpected(entityTagOf(before.head))) return CHANGED_SINCE;
    const { name = before.head.name, alias = before.head.alias, ...changed } = change;
    const content = mergeContent(before.content, changed);
    const isChanged = Object.values(changed).some((value) => value !== undefined);
    if (isChanged) {
      const parts = await readInTurn(scope, content);
      if (isRefusal(parts)) return parts;
    }
    return this.#db.transaction(async (tx) => {
      const head = await store.lockTemplate(tx, scope, before.head.id);
      if (head === null) return NO_TEMPLATE;
      if (head.updatedAt.getTime() !== before.head.updatedAt.getTime())
        return isExpected(entityTagOf(head)) ? CHANGED_MEANWHILE : CHANGED_SINCE;
      const { id } = head;
      const renamed = await store.renameTemplate(tx, scope, { id, name, alias });
      if (renamed === null) return refuseAlias(alias);
      if (!isChanged) return loadContent(tx, scope, renamed);
      const version = head.latestVersion + (isOwnDraft(before.content, savedBy) ? 0 : 1);
      const draft = await store.writeDraft(tx, scope, { ...content, id, version, savedBy });
      return loadContent(tx, scope, draft);
    });
  }

  publish(
    scope: Scope,
    idOrAlias: string,
    version?: number,
    isExpected = ANY_STATE,
  ): Promise<Template | Refusal> {
    return this.#db.transaction(async (tx) => {
      const head = await lockExpected(tx, { scope, idOrAlias, isExpected });
      if (isRefusal(head)) return head;
      const published = { id: head.id, version: version ?? head.latestVersion };
      const updated = await store.publishVersion(tx, scope, published);
      return updated === null ? NO_VERSION : loadContent(tx, scope, updated, published.version);
    });
  }

  /** Emails that use it stay, even scheduled ones. */
  delete(
    scope: Scope,
    idOrAlias: string,
    isExpected = ANY_STATE,
  ): Promise<{ id: string } | Refusal> {
    return this.#db.transaction(async (tx) => {
      const head = await lockExpected(tx, { scope, idOrAlias, isExpected });
      if (isRefusal(head)) return head;
      const id = await store.deleteTemplate(tx, scope, head.id);
      return id === null ? NO_TEMPLATE : { id };
    });
  }

  /** @param options.content fields that replace fields of the version, as a change would store them */
  async preview(
    scope: Scope,
    idOrAlias: string,
    options: { variables: Values; version?: number | undefined; content?: ContentChange },
  ): Promise<RenderedTemplate | Refusal> {
    const { variables, version, content: change = {} } = options;
    const found = await this.get(scope, idOrAlias, version);
    if (isRefusal(found)) return found;
    const content = mergeContent(found.content, change);
    const parts = await readInTurn(scope, content);
    if (isRefusal(parts)) return parts;
    const { variables: declared } = content;
    const given = { values: variables, field: 'variables' };
    return runInTurn(scope, () => renderParts(parts, { declared, given }));
  }

  translate(scope: Scope, foreign: ForeignContent, syntax: Syntax): Promise<Translation> {
    return runInTurn(scope, () => translateTemplate(foreign, syntax));
  }

  /**
   * Renders the content of an email whose request has `template`, and returns the id of the template.
   * @param template.withSubject false when the email has its own subject, so that the template's is not rendered
   * @param request.refuse returns why the email is refused whatever its content is; called before rendering
   * @param request.gone aborted when the client has disconnected
   * @throws the reason of `gone`
   */
  async render(
    scope: Scope,
    template: {
      id: string;
      variables: Values;
      withSubject: boolean;
      numbersAsText?: boolean | undefined;
    },
    request: { work: RequestWork; gone: AbortSignal; refuse: () => Promise<Refusal | null> },
  ): Promise<(RenderedTemplate & { templateId: string }) | Refusal> {
    const found = await this.#published.find(scope, template.id);
    if (isRefusal(found)) return found;
    const refusal = await request.refuse();
    if (refusal !== null) return refusal;
    const { variables, withSubject, numbersAsText } = template;
    const { key, size, declared } = found;
    if (withSubject && found.parts.subject === undefined) return NO_SUBJECT;
    const parts = withSubject ? found.parts : { ...found.parts, subject: undefined };
    request.work.useForReading(key, size);
    const given = { values: variables, field: 'template.variables', numbersAsText };
    const values = { declared, given };
    const rendered = await runInTurn(
      scope,
      () => renderWithinBudget(request.work, parts, values),
      request.gone,
    );
    return isRefusal(rendered) ? rendered : { ...rendered, templateId: found.id };
  }
}

async function lockExpected(
  tx: Queryable,
  wanted: { scope: Scope; idOrAlias: string; isExpected: IsExpected },
): Promise<store.TemplateHead | Refusal> {
  const head = await store.lockTemplate(tx, wanted.scope, wanted.idOrAlias);
  if (head === null) return NO_TEMPLATE;
  return wanted.isExpected(entityTagOf(head)) ? head : CHANGED_SINCE;
}

function refuseAlias(alias: string | null): Refusal {
  if (alias === null) {
    const message = `A project has at most ${store.TEMPLATES_MAX} templates; delete one first.`;
    return { refused: 'conflict', message };
  }
  const message = `The alias ${alias} is taken, or there are ${store.TEMPLATES_MAX} templates; choose another, or delete one.`;
  return { refused: 'conflict', message, details: [{ field: 'alias', message }] };
}

async function loadContent(
  db: Queryable,
  scope: Scope,
  head: store.TemplateHead,
  version = head.latestVersion,
): Promise<Template | Refusal> {
  const content = await store.findVersion(db, scope, { id: head.id, version });
  return content === null ? NO_VERSION : { head, content };
}

/** A member never overwrites the draft of another one: both are kept as versions. */
function isOwnDraft({ publishedAt, savedBy }: store.TemplateVersion, member: string | null) {
  if (publishedAt !== null) return false;
  return savedBy === null || member === null || savedBy === member;
}

function mergeContent(
  content: store.TemplateContent,
  change: ContentChange,
): store.TemplateContent {
  const changed = Object.entries(change).filter(([, value]) => value !== undefined);
  return { ...content, ...Object.fromEntries(changed) };
}
