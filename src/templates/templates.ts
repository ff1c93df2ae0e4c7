/**
 * Templates for the HTTP API and the command line: versions (`template-store.ts`), rendered for previews and for
 * accepted emails.
 *
 * Guarantee: a stored template can be rendered, and every variable that it reads is declared. A refusal names the
 * field. Emails use the published version. Reading and rendering a part takes at most about 20 ms (`liquid.ts`). A
 * project reads or renders one part at a time, and other work of the process runs in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises';
import { LRUCache } from 'lru-cache';
import { type FieldProblem, isRefusal, type Refusal, refuseFields } from '../core/refusals.ts';
import type { Scope } from '../core/scope.ts';
import { Turns } from '../lib/turns.ts';
import type { Database, Queryable } from '../database/database.ts';
import type { Page, PageResult } from '../database/page.ts';
import * as store from './template-store.ts';
import { readPart, type TemplatePart } from './liquid.ts';
import type { Syntax } from '../move-in/translate.ts';
import {
  type ForeignContent,
  translateTemplate,
  type Translation,
} from '../move-in/template-translation.ts';
import { checkDeclarations, fillIn, type Given } from './variables.ts';
import { type RequestWork, Work, WORK_MAX } from './work.ts';

/** `content` is the latest version, unless the request names another one. */
export type Template = { head: store.TemplateHead; content: store.TemplateVersion };

export type NewTemplate = store.TemplateContent & Pick<store.TemplateHead, 'name' | 'alias'>;
export type TemplateChange = { [Field in keyof NewTemplate]?: NewTemplate[Field] | undefined };
type ContentChange = Omit<TemplateChange, 'name' | 'alias'>;

export type RenderedTemplate = { subject: string; html: string | null; text: string | null };

type Values = Readonly<Record<string, unknown>>;

export class TemplateService {
  readonly #db: Database;
  readonly #published: PublishedTemplates;

  constructor({ db }: { db: Database }) {
    this.#db = db;
    this.#published = new PublishedTemplates(db);
  }

  async create(scope: Scope, template: NewTemplate): Promise<Template | Refusal> {
    const parts = await read(scope, template);
    if (isRefusal(parts)) return parts;
    const head = await store.createTemplate(this.#db, scope, template);
    return head === null ? takenAlias(template.alias) : withContent(this.#db, scope, head);
  }

  /** @param page.part text in the name or alias, in any case; null lists all */
  list(
    scope: Scope,
    page: Page & { part?: string | null },
  ): Promise<PageResult<store.TemplateHead>> {
    return store.listTemplates(this.#db.readsOf(scope.projectId), scope, page);
  }

  /** @param named here and below: id or alias of the template */
  async get(scope: Scope, named: string, version?: number): Promise<Template | Refusal> {
    const head = await store.findTemplate(this.#db, scope, named);
    return head === null ? NO_TEMPLATE : withContent(this.#db, scope, head, version);
  }

  async versions(scope: Scope, named: string): Promise<store.VersionSummary[] | Refusal> {
    const head = await store.findTemplate(this.#db, scope, named);
    return head === null ? NO_TEMPLATE : store.listVersions(this.#db, scope, head.id);
  }

  /**
   * Omitted fields do not change. A change of published content creates the next version. The content is read outside
   * of the transaction. The transaction then checks that it has not changed.
   */
  async update(scope: Scope, named: string, change: TemplateChange): Promise<Template | Refusal> {
    const before = await this.get(scope, named);
    if (isRefusal(before)) return before;
    const { name = before.head.name, alias = before.head.alias, ...changed } = change;
    const content = contentWith(before.content, changed);
    const isChanged = Object.values(changed).some((value) => value !== undefined);
    if (isChanged) {
      const parts = await read(scope, content);
      if (isRefusal(parts)) return parts;
    }
    return this.#db.transaction(async (tx) => {
      const head = await store.lockTemplate(tx, scope, before.head.id);
      if (head === null) return NO_TEMPLATE;
      if (head.updatedAt.getTime() !== before.head.updatedAt.getTime()) return CHANGED_MEANWHILE;
      const { id } = head;
      const renamed = await store.renameTemplate(tx, scope, { id, name, alias });
      if (renamed === null) return takenAlias(alias);
      if (!isChanged) return withContent(tx, scope, renamed);
      const version = head.latestVersion + (before.content.publishedAt === null ? 0 : 1);
      const draft = await store.writeDraft(tx, scope, { ...content, id, version });
      return withContent(tx, scope, draft);
    });
  }

  publish(scope: Scope, named: string, version?: number): Promise<Template | Refusal> {
    return this.#db.transaction(async (tx) => {
      const head = await store.lockTemplate(tx, scope, named);
      if (head === null) return NO_TEMPLATE;
      const wanted = { id: head.id, version: version ?? head.latestVersion };
      const published = await store.publishVersion(tx, scope, wanted);
      return published === null ? NO_VERSION : withContent(tx, scope, published, wanted.version);
    });
  }

  /** Emails that use it stay, even scheduled ones. */
  async delete(scope: Scope, named: string): Promise<{ id: string } | Refusal> {
    const id = await store.deleteTemplate(this.#db, scope, named);
    return id === null ? NO_TEMPLATE : { id };
  }

  /** @param wanted.content fields that replace those of the version, as a change would store them */
  async preview(
    scope: Scope,
    named: string,
    wanted: { variables: Values; version?: number | undefined; content?: ContentChange },
  ): Promise<RenderedTemplate | Refusal> {
    const { variables, version, content: change = {} } = wanted;
    const found = await this.get(scope, named, version);
    if (isRefusal(found)) return found;
    const content = contentWith(found.content, change);
    const parts = await read(scope, content);
    if (isRefusal(parts)) return parts;
    const { variables: declared } = content;
    const given = { values: variables, field: 'variables' };
    return inTurn(scope, () => render(parts, { declared, given }));
  }

  translate(scope: Scope, foreign: ForeignContent, syntax: Syntax): Promise<Translation> {
    return inTurn(scope, () => translateTemplate(foreign, syntax));
  }

  /**
   * Renders the content of an email whose request has `template`.
   * @param template.withSubject false when the email has its own subject, so that the template's is not rendered
   * @param of.refuse returns why the email is refused whatever its content is; called before rendering
   * @param of.gone aborted when the client has disconnected
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
    of: { work: RequestWork; gone: AbortSignal; refuse: () => Promise<Refusal | null> },
  ): Promise<RenderedTemplate | Refusal> {
    const found = await this.#published.find(scope, template.id);
    if (isRefusal(found)) return found;
    const refusal = await of.refuse();
    if (refusal !== null) return refusal;
    const { variables: values, withSubject, numbersAsText } = template;
    const { key, size, declared } = found;
    if (withSubject && found.parts.subject === undefined) return NO_SUBJECT;
    const parts = withSubject ? found.parts : { ...found.parts, subject: undefined };
    of.work.useForReading(key, size);
    const given = { values, field: 'template.variables', numbersAsText };
    return inTurn(scope, () => renderWithin(of.work, parts, { declared, given }), of.gone);
  }
}

/** Work that keeps the thread busy takes turns, in all services of the process. */
const turns = new Turns({ perOwner: 1 });

function inTurn<Result>(
  { projectId }: Scope,
  work: () => Result | Promise<Result>,
  signal?: AbortSignal,
): Promise<Result> {
  const next = async () => {
    await nextTurn();
    return work();
  };
  return turns.take(projectId, next, signal);
}

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

function takenAlias(alias: string | null): Refusal {
  const message =
    alias === null
      ? `A project has at most ${store.TEMPLATES_MAX} templates; delete one first.`
      : `The alias ${alias} is taken, or there are ${store.TEMPLATES_MAX} templates; choose another, or delete one.`;
  return { refused: 'conflict', message };
}

async function withContent(
  db: Queryable,
  scope: Scope,
  head: store.TemplateHead,
  version = head.latestVersion,
): Promise<Template | Refusal> {
  const content = await store.findVersion(db, scope, { id: head.id, version });
  return content === null ? NO_VERSION : { head, content };
}

function contentWith(content: store.TemplateContent, change: ContentChange): store.TemplateContent {
  const given = Object.entries(change).filter(([, value]) => value !== undefined);
  return { ...content, ...Object.fromEntries(given) };
}

const CHANGED_MEANWHILE: Refusal = {
  refused: 'conflict',
  message:
    'The template was changed by another request at the same time; look at it and try again.',
};

type Parts = { [Part in keyof RenderedTemplate]?: TemplatePart | undefined };
const PARTS = ['subject', 'html', 'text'] as const;

function read(scope: Scope, content: store.TemplateContent): Promise<Parts | Refusal> {
  return inTurn(scope, () => readParts(content));
}

async function readParts(content: store.TemplateContent): Promise<Parts | Refusal> {
  const problems: FieldProblem[] = checkDeclarations(content.variables, 'variables');
  const declared = new Set(content.variables.map(({ name }) => name));
  if (!content.html && !content.text) {
    problems.push({ field: 'html', message: 'is required, unless there is text' });
  }
  const parts: Parts = {};
  for (const field of PARTS) {
    const source = content[field];
    // When the template has no subject, the email has its own.
    if (source === null || (field === 'subject' && source === '')) continue;
    await nextTurn();
    const part = readPart(source, { isHtml: field === 'html' });
    if ('problem' in part) {
      problems.push({ field, message: part.problem });
      continue;
    }
    parts[field] = part;
    for (const name of part.variables.filter((one) => !declared.has(one))) {
      const message = `uses ${name}, which is not declared in variables`;
      problems.push({ field, message });
    }
  }
  return problems.length > 0 ? refuseFields(problems) : parts;
}

type Filling = { declared: readonly store.TemplateVariable[]; given: Given };

/** All parts share one budget of work (`work.ts`). */
function render(
  parts: Parts,
  { declared, given }: Filling,
  work = new Work(),
): RenderedTemplate | Refusal {
  const filled = fillIn(declared, given);
  if ('problems' in filled) return refuseFields(filled.problems);
  const rendered: RenderedTemplate = { subject: '', html: null, text: null };
  for (const name of PARTS) {
    const result = parts[name]?.render(filled.values, work);
    if (result === undefined) continue;
    if ('problem' in result) {
      return refuseFields([{ field: 'template', message: `its ${name} ${result.problem}` }]);
    }
    rendered[name] = result.text;
  }
  return rendered;
}

/** Renders within the budget that earlier emails of the request have left. */
function renderWithin(of: RequestWork, parts: Parts, filling: Filling): RenderedTemplate | Refusal {
  const limit = of.next();
  if (limit === null) return TOO_MUCH_AT_ONCE;
  const work = new Work(limit);
  const rendered = render(parts, filling, work);
  of.use(limit - work.left);
  return work.isExceeded && limit < WORK_MAX ? TOO_MUCH_AT_ONCE : rendered;
}

const TOO_MUCH_AT_ONCE: Refusal = refuseFields([
  {
    field: 'template',
    message:
      'the templates of this request take too much work to render; send fewer emails in one request',
  },
]);

type Published = {
  key: string;
  parts: Parts;
  declared: readonly store.TemplateVariable[];
  size: number;
};

/** Limit on the source characters of the parsed templates that a worker keeps. */
const KEPT_SOURCE_MAX = 4 * 1024 * 1024;

/** Parsed published versions. They never change, so they are never read again. */
class PublishedTemplates {
  readonly #db: Queryable;
  readonly #kept = new LRUCache<string, Published>({
    maxSize: KEPT_SOURCE_MAX,
    sizeCalculation: ({ size }) => size,
  });

  constructor(db: Queryable) {
    this.#db = db;
  }

  async find(scope: Scope, named: string): Promise<Published | Refusal> {
    const head = await store.findTemplate(this.#db, scope, named);
    if (head === null) return refuseId('there is no template with this id or alias');
    if (head.publishedVersion === null) return refuseId('has no published version; publish it');
    const key = `${head.id} ${head.publishedVersion}`;
    return this.#kept.get(key) ?? this.#load(scope, head, key);
  }

  async #load(
    scope: Scope,
    { id, publishedVersion }: store.TemplateHead,
    key: string,
  ): Promise<Published | Refusal> {
    const version = publishedVersion ?? 0;
    const content = await store.findVersion(this.#db, scope, { id, version });
    if (content === null) return refuseId('there is no template with this id or alias');
    const parts = await read(scope, content);
    if (isRefusal(parts)) return parts;
    const { subject, html, text, variables } = content;
    const size = 1_000 + subject.length + (html?.length ?? 0) + (text?.length ?? 0);
    const published = { key, parts, declared: variables, size };
    this.#kept.set(key, published);
    return published;
  }
}

function refuseId(message: string): Refusal {
  return refuseFields([{ field: 'template.id', message }]);
}
