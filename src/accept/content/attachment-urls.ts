/**
 * Downloads attachments that a request names by URL (`attachments[].path`) before the email is accepted: the file of
 * that moment is stored and sent. Customers choose these URLs, so every download uses the guarded client
 * (net/http/guarded-client.ts): https, public addresses, no redirections.
 *
 * A request downloads each of its URLs once, one after the other, within `requestMs`. PROJECT_MAX requests of a
 * project download at a time. Further requests wait within their own time, up to PROJECT_WAITING_MAX for a project
 * and PROCESS_MAX for the process.
 *
 * A file counts as if its base64 had come in the request, once for each email that has it: towards the memory of
 * request bodies, and towards REQUEST_MAX_BYTES.
 *
 * Any failure refuses the email, names the attachment and stores nothing. Downloads end at once when the client
 * disconnects or the service stops.
 */
import { type FieldProblem, Overloaded, type Refusal, refuseFields } from '../../core/refusals.ts';
import { Turns } from '../../lib/turns.ts';
import type { World } from '../../lib/world.ts';
import type { AddressGuard } from '../../net/ip-addresses.ts';
import type { Resolver } from '../../net/dns/resolver.ts';
import { checkOutboundUrl, guardedDownload } from '../../net/http/guarded-client.ts';
import { MIB } from '../../lib/units.ts';

const PROJECT_MAX = 4;
const PROJECT_WAITING_MAX = 64;
const PROCESS_MAX = 256;
const REQUEST_MS = 30_000;
const DOWNLOAD_MIN_MS = 10;
/** Limit on base64 in one request, like the limit on a request's body (http/app.ts). */
const REQUEST_MAX_BYTES = 45 * MIB;

export type AttachmentUrlOptions = {
  guard: AddressGuard;
  resolver: Pick<Resolver, 'a' | 'aaaa'>;
  world: Pick<World, 'monotonicMs'>;
  requestMs?: number;
};

export type NamedAttachment = {
  filename: string;
  content?: string | null | undefined;
  content_type?: string | null | undefined;
  content_id?: string | null | undefined;
  path?: string | null | undefined;
};

type DownloadingRequest = {
  projectId: string;
  take: (bytes: number) => boolean;
  gone: () => AbortSignal;
};

export type RequestDownloads = {
  download(attachments: readonly NamedAttachment[]): Promise<NamedAttachment[] | Refusal>;
};

export class AttachmentUrls {
  readonly #options: AttachmentUrlOptions;
  readonly #projects = new Turns({ perOwner: PROJECT_MAX });
  #requests = 0;
  readonly #stopping = new AbortController();

  constructor(options: AttachmentUrlOptions) {
    this.#options = options;
  }

  stop(): void {
    this.#stopping.abort(new Overloaded('the service is stopping'));
  }

  /**
   * @param request.take counts memory of the request; false: none is left, or the client has disconnected
   * @param request.gone called before the first download; its signal aborts when the client disconnects
   */
  forRequest(request: DownloadingRequest): RequestDownloads {
    const { world, requestMs = REQUEST_MS } = this.#options;
    const deadlineMs = world.monotonicMs() + requestMs;
    const files = new DownloadedFiles({
      ...this.#options,
      requestMs,
      deadlineMs,
      take: request.take,
    });
    let signal: AbortSignal | null = null;
    return {
      download: async (attachments) => {
        if (attachments.every(({ path }) => path == null)) return [...attachments];
        const problems = attachments.flatMap((one, index) => this.#check(one, index));
        if (problems.length > 0) return refuseFields(problems);
        const end = (signal ??= AbortSignal.any([this.#stopping.signal, request.gone()]));
        return this.#takeTurn(request.projectId, () => files.fill(attachments, end), end);
      },
    };
  }

  #check({ path, content }: NamedAttachment, index: number): FieldProblem[] {
    const field = `attachments[${index}].path`;
    if (path == null) return [];
    if (content != null)
      return [{ field, message: 'cannot be combined with content; use one of them' }];
    const message = checkOutboundUrl(path, this.#options.guard);
    return message === null ? [] : [{ field, message }];
  }

  async #takeTurn<Result>(
    projectId: string,
    work: () => Promise<Result>,
    signal: AbortSignal,
  ): Promise<Result> {
    if (this.#requests >= PROCESS_MAX) throw new Overloaded(BUSY);
    if (this.#projects.tasksOf(projectId) >= PROJECT_WAITING_MAX) throw new Overloaded(BUSY);
    this.#requests += 1;
    try {
      return await this.#projects.run(projectId, work, signal);
    } finally {
      this.#requests -= 1;
    }
  }
}

const BUSY = 'too many requests download attachments';

type FilesOptions = Required<AttachmentUrlOptions> & {
  deadlineMs: number;
  take: (bytes: number) => boolean;
};

type DownloadProblem = { message: string };

class DownloadedFiles {
  readonly #options: FilesOptions;
  readonly #base64 = new Map<string, string | DownloadProblem>();
  #bytes = 0;
  #hasBegun = false;

  constructor(options: FilesOptions) {
    this.#options = options;
  }

  /**
   * @throws Overloaded when other requests have used up its time or the memory
   * @throws the signal's reason when it is aborted
   */
  async fill(
    attachments: readonly NamedAttachment[],
    signal: AbortSignal,
  ): Promise<NamedAttachment[] | Refusal> {
    const filled: NamedAttachment[] = [];
    for (const [index, attachment] of attachments.entries()) {
      const { path, ...rest } = attachment;
      const content = path == null ? rest.content : await this.#contentOf(path, signal);
      if (content !== null && typeof content === 'object') {
        return refuseFields([{ field: `attachments[${index}].path`, message: content.message }]);
      }
      filled.push({ ...rest, content });
    }
    return filled;
  }

  async #contentOf(url: string, signal: AbortSignal): Promise<string | DownloadProblem> {
    const known = this.#base64.get(url);
    if (known !== undefined) {
      const fits = typeof known !== 'string' || this.#takeMemory(known.length);
      return fits ? known : this.#refuseTooLarge();
    }
    const content = await this.#download(url, signal);
    this.#base64.set(url, content);
    return content;
  }

  async #download(url: string, signal: AbortSignal): Promise<string | DownloadProblem> {
    const { guard, resolver, world, deadlineMs, requestMs } = this.#options;
    signal.throwIfAborted();
    const timeoutMs = deadlineMs - world.monotonicMs();
    if (!this.#hasBegun && timeoutMs < requestMs / 10) throw new Overloaded(BUSY);
    if (timeoutMs < DOWNLOAD_MIN_MS) {
      return { message: `the attachments of a request must arrive within ${requestMs / 1000} s` };
    }
    this.#hasBegun = true;
    let isTooMuch = false;
    const outcome = await guardedDownload({
      url,
      guard,
      resolver,
      world,
      timeoutMs,
      allowHttp: guard.allowPrivate,
      take: (bytes) => !(isTooMuch ||= !this.#takeMemory((bytes * 4) / 3)),
      signal,
    });
    signal.throwIfAborted();
    if (isTooMuch) return this.#refuseTooLarge();
    if (outcome.kind === 'failed') return { message: outcome.publicMessage };
    return outcome.bytes.toString('base64');
  }

  #takeMemory(bytes: number): boolean {
    this.#bytes += bytes;
    return this.#bytes <= REQUEST_MAX_BYTES && this.#options.take(bytes);
  }

  /** @throws Overloaded unless the request itself is too large */
  #refuseTooLarge(): DownloadProblem {
    if (this.#bytes > REQUEST_MAX_BYTES) return { message: ATTACHMENTS_TOO_LARGE };
    throw new Overloaded('too many large requests are in progress');
  }
}

const ATTACHMENTS_TOO_LARGE =
  'exceeds the limit of a request: 45 MB, in base64, for all attachments';
