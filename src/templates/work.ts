/**
 * What rendering a template may cost, counted in units of work instead of time: the same template
 * with the same variables is rendered or refused on every machine, under any load, and one that
 * would take long is refused while it is rendered, in the thread that also answers requests.
 *
 * A unit is about 50 ns on the reference machine, so that all of WORK_MAX is some 20 ms. Everything
 * whose cost depends on the template or its variables is charged before it is done: each part that
 * is rendered, by the length of its source; each operand and argument, by all that is in it; filters
 * that do more than look at their arguments once (filters.ts).
 */
import { Context, type Liquid, toValue } from 'liquidjs';

export const WORK_MAX = 400_000;
/** Of all emails of a request, with reading each template once. */
export const REQUEST_WORK_MAX = 20 * WORK_MAX;

/** Characters that are copied or compared for one unit. */
const CHARS_PER_UNIT = 16;
/** A step of the engine: a part that is rendered, an iteration of a loop. */
const STEP_UNITS = 10;
const LOOK_UP_UNITS = 12;
/** LiquidJS counts items of ranges and characters of results. */
const LIBRARY_COUNT_PER_UNIT = 4;

class WorkExceeded extends Error {
  override readonly name = 'WorkExceeded';
}

export class Work {
  #left: number;

  constructor(limit = WORK_MAX) {
    this.#left = limit;
  }

  /** Whether that is why rendering failed: the engine wraps errors in its own. */
  get isExceeded(): boolean {
    return this.#left < 0;
  }

  get left(): number {
    return this.#left;
  }

  /** @throws when no more is left */
  use(units: number): void {
    this.#left -= units;
    if (!(this.#left >= 0)) {
      this.#left = -1;
      throw new WorkExceeded('more work than a template may make');
    }
  }

  useChars(count: number): void {
    this.use(1 + count / CHARS_PER_UNIT);
  }

  /** For all that is in a value. @returns its units, so that more can be charged for it */
  useFor(value: unknown): number {
    const before = this.#left;
    this.#look(value);
    return before - this.#left;
  }

  #look(value: unknown): void {
    if (typeof value === 'string') return this.useChars(value.length);
    this.use(1);
    if (Array.isArray(value)) for (const item of value) this.#look(item);
    else if (isPlainObject(value)) for (const member of Object.values(value)) this.#look(member);
  }
}

export class RequestWork {
  #left = REQUEST_WORK_MAX;
  readonly #read = new Set<string>();

  /** For one email; null: nothing is left. */
  next(): number | null {
    return this.#left > 0 ? Math.min(this.#left, WORK_MAX) : null;
  }

  use(units: number): void {
    this.#left -= units;
  }

  /** Counted once for each template, whether its parsed form is still known or not. @param size in characters */
  useForReading(key: string, size: number): void {
    if (!this.#read.has(key)) this.use(size);
    this.#read.add(key);
  }
}

/** As variables are; objects of the engine, as `forloop`, are not. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** The scope of one rendering. */
export class MeteredContext extends Context {
  readonly work: Work;
  readonly #engine: Liquid;

  constructor(
    variables: object,
    engine: Liquid,
    work: Work,
    options: { isLenient?: boolean } = {},
  ) {
    const limits = {
      memoryLimit: {
        use: (count: number) => count > 0 && work.use(count / LIBRARY_COUNT_PER_UNIT),
      },
      // Asked before each part and each iteration; the time it passes is of no interest here.
      renderLimit: { check: () => work.use(STEP_UNITS) },
      liquid: engine,
    };
    const own = limits as unknown as NonNullable<ConstructorParameters<typeof Context>[3]>;
    super(variables, engine.options, { sync: true, strictVariables: !options.isLenient }, own);
    this.#engine = engine;
    this.work = work;
  }

  /** For a filter that looks at the items of a list: not all of them have every property. */
  override spawn(item = {}): Context {
    return new MeteredContext(item, this.#engine, this.work, { isLenient: true });
  }

  override readProperty(...[object, key]: Parameters<Context['readProperty']>): unknown {
    const name: unknown = toValue(key);
    if (typeof name === 'object' && name !== null) throw new Error('a list or an object is no key');
    this.work.use(LOOK_UP_UNITS);
    if (name === 'size' && isPlainObject(object)) this.work.use(6 * Object.keys(object).length);
    return super.readProperty(object, key);
  }
}

/** The work of the rendering that a tag, filter or operator belongs to. */
export function workOf(context: Context): Work {
  if (context instanceof MeteredContext) return context.work;
  throw new Error('a template is rendered in a MeteredContext');
}
