/** A file that is chosen or dropped. */
import { Upload } from 'lucide-react';
import { type ReactNode, useState } from 'react';
import { Labelled } from './field.tsx';

const KB = 1_024;

/**
 * @param props.accept kinds of files, like ".csv,text/csv"
 * @param props.onFile is called with the chosen file, or null when it is taken back
 */
export function FileField(props: {
  label: string;
  name?: string;
  accept?: string;
  required?: boolean;
  hint?: ReactNode;
  error?: string | null;
  onFile?: (file: File | null) => void;
}): ReactNode {
  const { label, name, accept, required, hint, error, onFile } = props;
  const [file, setFile] = useState<File | null>(null);
  return (
    <Labelled label={label} name={name} hint={hint} error={error}>
      {(control) => (
        <span className="relative flex items-center gap-3 rounded-md border border-dashed border-control bg-surface p-3 has-focus-visible:outline-2 has-focus-visible:outline-offset-1 has-focus-visible:outline-accent has-[input:hover]:bg-hover">
          <Upload size={16} aria-hidden className="shrink-0 text-muted" />
          <span className="min-w-0 grow break-words" aria-live="polite">
            {file === null ? (
              <>
                <span className="font-medium text-accent">Choose a file</span>{' '}
                <span className="text-muted">or drop it here</span>
              </>
            ) : (
              `${file.name}, ${sizeText(file.size)}`
            )}
          </span>
          <input
            {...control}
            type="file"
            name={name}
            accept={accept}
            required={required}
            onChange={({ target }) => {
              const chosen = target.files?.[0] ?? null;
              setFile(chosen);
              onFile?.(chosen);
            }}
            // Over the whole area, so that a file can be dropped on it.
            className="absolute inset-0 size-full opacity-0"
          />
        </span>
      )}
    </Labelled>
  );
}

function sizeText(bytes: number): string {
  if (bytes < KB) return `${bytes} bytes`;
  if (bytes < KB * KB) return `${Math.round(bytes / KB)} KB`;
  return `${(bytes / KB / KB).toFixed(1)} MB`;
}
