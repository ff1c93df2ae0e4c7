/**
 * Periodic tasks of one process per machine: maintenance-tasks.ts lists them, task-schedule.ts runs them. They watch
 * the installation (node-watch.ts, space-watch.ts), maintain its tables, and remove expired data.
 */
import { maintenanceTasks, type TaskContext } from './maintenance-tasks.ts';
import { TaskSchedule } from './task-schedule.ts';

export type MaintenanceOptions = Omit<TaskContext, 'signal' | 'onOutdated'>;

export class Maintenance implements AsyncDisposable {
  readonly #options: MaintenanceOptions;
  readonly #schedule: TaskSchedule;
  readonly #outdated = Promise.withResolvers<string>();
  /** Resolves with a sentence when the database requires newer code or another secret key. */
  readonly outdated = this.#outdated.promise;

  constructor(options: MaintenanceOptions) {
    this.#options = options;
    this.#schedule = new TaskSchedule(options.log);
  }

  start(): void {
    const { signal } = this.#schedule;
    const onOutdated = (problem: string): void => this.#outdated.resolve(problem);
    this.#schedule.start(maintenanceTasks({ ...this.#options, signal, onOutdated }));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#schedule.stop();
  }
}
