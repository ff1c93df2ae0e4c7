import { type InputHTMLAttributes, type ReactNode, useId } from 'react';

export const INPUT =
  'h-8 w-full min-w-0 rounded-md border border-control bg-raised px-2.5 text-base placeholder:text-muted';

type Props = InputHTMLAttributes<HTMLInputElement> & { label: string; hint?: string };

export function Field({ label, hint, className = '', ...rest }: Props): ReactNode {
  const id = useId();
  return (
    <div className={className}>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {label}
      </label>
      <input
        id={id}
        {...rest}
        {...(hint ? { 'aria-describedby': `${id}-hint` } : {})}
        className={INPUT}
      />
      {hint && (
        <p id={`${id}-hint`} className="mt-1 text-sm text-muted">
          {hint}
        </p>
      )}
    </div>
  );
}

/** Returns the text of a field, or '' when the form has no such field. */
export function textOf(form: FormData, name: string): string {
  const value = form.get(name);
  return typeof value === 'string' ? value : '';
}

type Options<Value extends string> = readonly (readonly [value: Value, text: string])[];

/** The option that was chosen in a form; else the first. */
export function chosenOf<Value extends string>(
  form: FormData,
  name: string,
  options: Options<Value>,
): Value {
  const text = textOf(form, name);
  return (options.find(([value]) => value === text) ?? options[0]!)[0];
}

/** One of a few values. */
export function Select({
  label,
  name,
  options,
  chosen,
  onChange,
}: {
  label: string;
  name: string;
  options: Options<string>;
  chosen?: string | undefined;
  onChange?: (value: string) => void;
}): ReactNode {
  const id = useId();
  return (
    <div>
      <label htmlFor={id} className="mb-1 block text-sm font-medium">
        {label}
      </label>
      <select
        id={id}
        name={name}
        defaultValue={chosen}
        onChange={(event) => onChange?.(event.target.value)}
        className={INPUT}
      >
        {options.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </div>
  );
}
