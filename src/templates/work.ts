/**
 * Limits the cost of rendering a template, counted in units of work instead of time. The same template with the same
 * variables is therefore rendered or refused alike on every machine, under any load. A costly template is stopped
 * while it is rendered, in the thread that also answers requests.
 *
 * A unit is about 50 ns on the reference machine, so WORK_MAX is some 20 ms. Work whose cost depends on the template
 * or its variables is charged before it is done: each rendered part by the length of its source, each operand and
 * argument by its whole content, and filters that need more than one pass over their arguments (filters.ts).
 */
import { Context, type Liquid, toValue } from 'liquidjs';

export const WORK_MAX = 400_000;
/** Limit for all emails of a request. Reading counts once for each template. */
export const REQUEST_WORK_MAX = 20 * WORK_MAX;

/** Characters that one unit copies or compares. */
const CHARS_PER_UNIT = 16;
/** Units of one step of the engine: rendering a part, or an iteration of a loop. */
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

  /** True when rendering failed for this reason. The engine wraps errors, so their type does not show it. */
  get isExceeded(): boolean {
    return this.#left < 0;
  }

  get left(): number {
    return this.#left;
  }

  /** @throws WorkExceeded when the budget is used up */
  use(units: number): void {
    this.#left -= units;
    if (!(this.#left >= 0)) {
      this.#left = -1;
      throw new WorkExceeded('the work of the template exceeds its limit');
    }
  }

  useChars(count: number): void {
    this.use(1 + count / CHARS_PER_UNIT);
  }

  /**
   * Charges the whole content of a value.
   * @returns its units, so that the caller can charge more
   */
  useFor(value: unknown): number {
    const before = this.#left;
    this.#chargeContent(value);
    return before - this.#left;
  }

  #chargeContent(value: unknown): void {
    if (typeof value === 'string') return this.useChars(value.length);
    this.use(1);
    if (Array.isArray(value)) for (const item of value) this.#chargeContent(item);
    else if (isPlainObject(value))
      for (const member of Object.values(value)) this.#chargeContent(member);
  }
}

export class RequestWork {
  #left = REQUEST_WORK_MAX;
  readonly #read = new Set<string>();

  /** Returns the budget of the next email; null when nothing is left. */
  nextBudget(): number | null {
    return this.#left > 0 ? Math.min(this.#left, WORK_MAX) : null;
  }

  use(units: number): void {
    this.#left -= units;
  }

  /**
   * Charges each template once, even if its parsed form is cached.
   * @param size in characters
   */
  useForReading(key: string, size: number): void {
    if (!this.#read.has(key)) this.use(size);
    this.#read.add(key);
  }
}

/** True for objects of variables, false for objects of the engine such as `forloop`. */
export function isPlainObject(value: unknown): value is Readonly<Record<string, unknown>> {
  if (typeof value !== 'object' || value === null) return false;
  const prototype: unknown = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

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
      // The engine calls this before each part and each iteration. Its time argument is not used.
      renderLimit: { check: () => work.use(STEP_UNITS) },
      liquid: engine,
    };
    const own = limits as unknown as NonNullable<ConstructorParameters<typeof Context>[3]>;
    super(variables, engine.options, { sync: true, strictVariables: !options.isLenient }, own);
    this.#engine = engine;
    this.work = work;
  }

  /** Filters look at items of lists, which may lack a property. */
  override spawn(item = {}): Context {
    return new MeteredContext(item, this.#engine, this.work, { isLenient: true });
  }

  override readProperty(...[object, key]: Parameters<Context['readProperty']>): unknown {
    const name: unknown = toValue(key);
    if (typeof name === 'object' && name !== null)
      throw new Error('a list or an object is not a key');
    this.work.use(LOOK_UP_UNITS);
    if (name === 'size' && isPlainObject(object)) this.work.use(6 * Object.keys(object).length);
    return super.readProperty(object, key);
  }
}

export function workOf(context: Context): Work {
  if (context instanceof MeteredContext) return context.work;
  throw new Error('a template is rendered in a MeteredContext');
}
